package foundationdb

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// parameterLine is a line of fdbmonitor's configuration: an option of fdbserver by its long name, and its value.
var parameterLine = regexp.MustCompile(`^([a-z][a-z0-9_-]+) = (\S.*)$`)

// ownParameters are those that Usher writes for each member, and other names of theirs, with dashes for underscores, as fdbserver takes both.
var ownParameters = []string{
	"command", "cluster-file", "public-address", "listen-address", "datadir", "logdir", "class", "locality-instance-id", "locality-zoneid", "locality-machineid",
	"zoneid", "machine-id", "seed-cluster-file", "seed-connection-string",
}

// acceptsParameters says why the configuration of processes cannot get these lines.
func acceptsParameters(lines []string) error {
	var names []string
	for i, line := range lines {
		found := parameterLine.FindStringSubmatch(line)
		if found == nil {
			return fmt.Errorf("parameters[%d]: %q is no line `name = value` with the long name of an option of fdbserver", i, line)
		}
		name := strings.ReplaceAll(found[1], "_", "-")
		switch {
		case slices.Contains(ownParameters, name):
			return fmt.Errorf("parameters[%d]: %s is set for each member by Usher", i, found[1])
		case strings.Contains(found[2], "$("):
			return fmt.Errorf("parameters[%d]: %s: the kubelet would put a variable in for $(...); write the value itself", i, found[1])
		case slices.Contains(names, name):
			return fmt.Errorf("parameters[%d]: %s is there twice", i, found[1])
		}
		names = append(names, name)
	}
	return nil
}
