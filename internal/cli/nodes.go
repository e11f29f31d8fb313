package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"usher.sh/usher/internal/snapshot"
)

// nodeArgs reads node names as kubectl does: NAME or node/NAME, each once.
func nodeArgs(args []string, selector string) ([]string, error) {
	switch {
	case len(args) == 0 && selector == "":
		return nil, errors.New("no node was named: give NODE…, or nodes by label with -l")
	case len(args) > 0 && selector != "":
		return nil, errors.New("nodes are named and selected with -l: give one of the two")
	}
	var names []string
	for _, arg := range args {
		kind, name, typed := strings.Cut(arg, "/")
		if !typed {
			kind, name = "node", arg
		}
		if !slices.Contains([]string{"node", "nodes", "no"}, kind) || name == "" {
			return nil, fmt.Errorf("%q is not a node: give NAME or node/NAME", arg)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// resolveNodes returns the names of the nodes that are meant, which all exist.
func resolveNodes(c *snapshot.Cluster, names []string, selector string) ([]string, error) {
	if selector != "" {
		return selectNodes(c, selector)
	}
	var unknown []error
	for _, name := range names {
		if c.Node(name) == nil {
			unknown = append(unknown, unknownNode(c, name))
		}
	}
	return names, errors.Join(unknown...)
}

func selectNodes(c *snapshot.Cluster, selector string) ([]string, error) {
	match, err := labels.Parse(selector)
	if err != nil {
		return nil, fmt.Errorf("-l %q is not a label selector: %w", selector, err)
	}
	var names []string
	for _, n := range c.Nodes() {
		if match.Matches(labels.Set(n.Labels)) {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no node has the labels %s (the cluster has %d nodes); nothing was changed", selector, len(c.Nodes()))
	}
	return names, nil
}

func unknownNode(c *snapshot.Cluster, name string) error {
	var all []string
	for _, n := range c.Nodes() {
		all = append(all, n.Name)
	}
	near := nearest(name, all)
	if len(near) == 0 && c.Partial("nodes") {
		return fmt.Errorf("the cluster has no node %q; nothing was changed", name)
	}
	if len(near) == 0 {
		return fmt.Errorf("the cluster has no node %q (it has %d nodes); nothing was changed", name, len(c.Nodes()))
	}
	return fmt.Errorf("the cluster has no node %q; did you mean %s? Nothing was changed", name, strings.Join(near, " or "))
}

// nearest returns up to three names that differ in a few letters or contain the name.
func nearest(name string, all []string) []string {
	type candidate struct {
		name string
		far  int
	}
	var found []candidate
	for _, other := range all {
		far := distance(name, other)
		if strings.Contains(other, name) {
			far = 1
		}
		if far <= max(2, len(name)/4) {
			found = append(found, candidate{other, far})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.far, b.far) })
	var names []string
	for _, c := range found[:min(3, len(found))] {
		names = append(names, c.name)
	}
	return names
}

// distance is how many letters have to be put in, taken out or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
