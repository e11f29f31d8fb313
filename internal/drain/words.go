package drain

import (
	"slices"
	"strings"
	"time"

	"usher.sh/usher/internal/text"

	"usher.sh/usher/internal/snapshot"
)

// mostListed is how many names a list has in words.
const mostListed = 3

// listed joins names for people and cuts a long list.
func listed(names []string) string {
	return text.List(names, mostListed)
}

// short writes a duration as people say it: whole seconds, no trailing zeros.
func short(d time.Duration) string {
	d = d.Round(time.Second)
	if d < time.Second {
		return "0s"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// places names the nodes that pods are on.
func places(pods []*snapshot.Pod) string { return listed(nodesOf(pods)) }

// nodesOf returns the names of the nodes of pods, each once.
func nodesOf(pods []*snapshot.Pod) []string {
	var names []string
	for _, p := range pods {
		if !slices.Contains(names, p.Node) {
			names = append(names, p.Node)
		}
	}
	return names
}
