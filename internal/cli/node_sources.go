package cli

import (
	"fmt"
	"slices"

	"usher.sh/usher/internal/agent/notices"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/text"
)

// nodeSources are the sources of notices that a flag names.
func nodeSources(flag string, names []string) ([]notice.Source, error) {
	var sources []notice.Source
	for _, name := range names {
		source := notice.Source(name)
		switch {
		case !slices.Contains(notices.Sources(), source):
			return nil, fmt.Errorf("%s: %q is no source of notices on nodes: it can be %s", flag, name, text.Join(notices.Sources(), ", "))
		case slices.Contains(sources, source):
			return nil, fmt.Errorf("%s: %s is named twice", flag, name)
		}
		sources = append(sources, source)
	}
	return sources, nil
}
