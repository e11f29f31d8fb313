package testlab

import "testing"

func TestNodesAreReady(t *testing.T) {
	l := Get(t)
	if got := l.Nodes(t, 3, "a", "b"); len(got) != 3 {
		t.Errorf("got nodes %v, want 3", got)
	}
	l.Namespace(t)
}
