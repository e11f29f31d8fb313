package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/drain"
)

// Two nodes with one pod of a Deployment each: the surge counts both, in one round.
func TestEveryNodeIsCordonedBeforeAnythingMoves(t *testing.T) {
	req := ask("a", "b")
	req.Surge = drain.SurgeAlways
	s := tell(t, req, node("a", ours), node("b"), node("c"), deployment("web", 2), pod("web-a", on("a"), of("web")), pod("web-b", on("b"), of("web")))
	s.expect("cordon b draining")
	s.then(0, node("b", ours))
	s.expect("scale web to 4, was 2")
}

// Nodes that are drained beside each other are cordoned before anything leaves one of them: a pod would have to move twice.
func TestNodesBesideAreCordonedFirst(t *testing.T) {
	begin := func(facts ...fact) *story {
		req := ask("a")
		req.Beside = []string{"a", "b", "unknown"}
		s := tell(t, req, append(facts, deployment("web", 4), pods("web", "a", 2), pods("web", "c", 2))...)
		return s
	}
	s := begin(node("a"), node("b"))
	s.expect("cordon a draining")
	s.then(0, node("a", ours))
	s.expect()
	s.holds("web-a1: NodeWaitsItsTurn", "web-a2: NodeWaitsItsTurn")
	s.then(time.Second, node("b", drainedBy("beside", start)))
	s.expect("evict web-a1", "evict web-a2")

	s = begin(node("a", ours), node("b"))
	s.expect()
	if want := start.Add(15 * time.Second); s.last.Next.After(want) || s.last.Next.IsZero() {
		t.Errorf("it looks again at %s", s.last.Next)
	}
	s.then(15*time.Second, node("a", drainedBy(me, start.Add(15*time.Second))))
	s.expect("evict web-a1", "evict web-a2")

	s = begin(node("a", ours), node("b", cordoned))
	s.expect("evict web-a1", "evict web-a2")
}
