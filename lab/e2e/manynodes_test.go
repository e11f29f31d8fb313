package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/lab/testlab"
)

// zoned makes nodes in zones, dealt out in turn, with three pods each, and drains them all. A pod on each of those that
// are to drain together stays until all of them have begun: none is done before, however slow the others are.
func zoned(t *testing.T, together []int, flags ...string) (busyNodes, busyZones int) {
	t.Helper()
	l := testlab.Get(t)
	zones := map[string]string{}
	s := &stage{Lab: l, ns: l.Namespace(t)}
	names := l.Nodes(t, 6, "a", "b", "c")
	for i, node := range names {
		zones[node] = string("abc"[i%3])
		for _, pod := range []string{"-x", "-y", "-z"} {
			l.Pod(t, s.ns, node+pod, podOn(node), func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(2)) })
		}
	}
	s.settled(t, 18)
	for _, i := range together {
		s.Stick(t, s.ns, names[i]+"-x")
	}
	p := start(t, append(append([]string{"drain", "--force"}, flags...), names...)...)
	for _, i := range together {
		p.reached(t, names[i]+"-x", "terminating")
	}
	for _, i := range together {
		s.Unstick(t, s.ns, names[i]+"-x")
	}
	p.wait(t).want(t, 0, "drained")
	busyNodes = s.rec.mostBusy(t, func(p pod) string { return p.node })
	busyZones = s.rec.mostBusy(t, func(p pod) string { return zones[p.node] })
	return busyNodes, busyZones
}

func TestAllNodesAtOnce(t *testing.T) {
	t.Parallel()
	if nodes, _ := zoned(t, []int{0, 1, 2, 3, 4, 5}); nodes != 6 {
		t.Errorf("at most %d of 6 nodes were draining at once, want all", nodes)
	}
}

func TestMaxParallel(t *testing.T) {
	t.Parallel()
	if nodes, _ := zoned(t, []int{0, 1}, "--max-parallel=2"); nodes != 2 {
		t.Errorf("at most %d nodes were draining at once, want 2", nodes)
	}
}

func TestMaxZones(t *testing.T) {
	t.Parallel()
	if nodes, zones := zoned(t, []int{0, 3}, "--max-zones=1"); zones != 1 || nodes != 2 {
		t.Errorf("at most %d zones and %d nodes were draining at once, want 1 and its 2 nodes", zones, nodes)
	}
}
