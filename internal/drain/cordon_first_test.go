package drain_test

import (
	"testing"

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
