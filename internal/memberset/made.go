package memberset

import (
	"maps"
	"slices"
	"strings"

	"usher.sh/usher/api/v1alpha1"
)

// parametersPart begins the part of the hash of what a pod was made of that is of its group's parameters. No container has such a name.
const parametersPart = "parameters="

// madeOf is the hash of what a member's pod is to be made of.
func (d *decision) madeOf(g *group, m *v1alpha1.SetMember) string {
	parts := []string{g.hash}
	if len(g.Parameters) > 0 {
		parts = append(parts, parametersPart+sumOf([]byte(strings.Join(g.Parameters, "\n"))))
	}
	parts = slices.Concat(parts, slices.Sorted(maps.Keys(d.crashLoops(g, m))))
	if d.emptyConfiguration(m) != "" {
		parts = append(parts, noProcess)
	}
	return strings.Join(parts, "+")
}

// templateOf is the hash of the template alone in that of what a pod was made of.
func templateOf(made string) string {
	template, _, _ := strings.Cut(made, "+")
	return template
}

// debuggingOf is all in it but the template and the parameters: the containers that crash, and that the configuration is empty.
func debuggingOf(made string) string {
	_, rest, _ := strings.Cut(made, "+")
	if first, debugging, _ := strings.Cut(rest, "+"); strings.HasPrefix(first, parametersPart) {
		return debugging
	}
	return rest
}
