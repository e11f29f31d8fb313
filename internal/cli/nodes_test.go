package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/snapshot"
)

func TestNodeArgs(t *testing.T) {
	tests := []struct {
		name     string
		args     []string
		selector string
		want     []string
		wrong    string
	}{
		{"names", []string{"a", "b"}, "", []string{"a", "b"}, ""},
		{"as kubectl writes them", []string{"node/a", "nodes/b", "no/c"}, "", []string{"a", "b", "c"}, ""},
		{"each once", []string{"a", "node/a", "a"}, "", []string{"a"}, ""},
		{"selector", nil, "zone=a", nil, ""},
		{"nothing", nil, "", nil, "no node was named"},
		{"both", []string{"a"}, "zone=a", nil, "one of the two"},
		{"another kind", []string{"pod/a"}, "", nil, `"pod/a" is not a node`},
		{"no name", []string{"node/"}, "", nil, `"node/" is not a node`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := nodeArgs(tt.args, tt.selector)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			wantError(t, err, tt.wrong)
		})
	}
}

func TestResolveNodes(t *testing.T) {
	c := snapshot.NewCluster()
	for _, name := range []string{"worker-1", "worker-2", "control-plane"} {
		c.SetNode(&snapshot.Node{Name: name, Labels: map[string]string{"role": strings.TrimRight(name, "-12")}})
	}
	tests := []struct {
		name     string
		names    []string
		selector string
		want     []string
		wrong    string
	}{
		{"known", []string{"worker-2"}, "", []string{"worker-2"}, ""},
		{"selected", nil, "role=worker", []string{"worker-1", "worker-2"}, ""},
		{"one letter off", []string{"wrker-1"}, "", []string{"wrker-1"}, `no node "wrker-1"; did you mean worker-1 or worker-2? Nothing was changed`},
		{"a part of it", []string{"control"}, "", []string{"control"}, "did you mean control-plane?"},
		{"far from all", []string{"db"}, "", []string{"db"}, `no node "db" (it has 3 nodes)`},
		{"all unknown ones are named", []string{"db", "x"}, "", []string{"db", "x"}, `no node "x"`},
		{"no node has the label", nil, "role=gpu", nil, "no node has the labels role=gpu"},
		{"not a selector", nil, "role=(", nil, "is not a label selector"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := resolveNodes(c, tt.names, tt.selector)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			wantError(t, err, tt.wrong)
		})
	}
}

// wantError checks that an error says something, or that there is none for "".
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want one that says %q", err, want)
	}
}
