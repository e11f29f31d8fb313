package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/drain"
)

// Pods that another client removes in mid-drain, a deleted node's say, are gone like
// those that were evicted, and their replacements are followed.
func TestPodsThatOthersRemove(t *testing.T) {
	req := ask("a")
	req.Surge = drain.SurgeNever
	s := tell(t, req, node("a", ours), node("b"), deployment("web", 2), pods("web", "a", 2), budget("web", 2, 2, 2, minAvailable("2")))
	s.decide()
	s.then(time.Second, gone("web-a1"), pod("web-new", on("b"), of("web"), unready))
	s.decide()
	same(t, "state", drain.GoneState, s.status("web-a1").State)
	same(t, "note", "its replacement web-new is not ready", s.status("web-a1").Note)
	s.then(time.Second, pod("web-new", on("b"), of("web")))
	s.decide()
	same(t, "state", drain.Replaced, s.status("web-a1").State)
}
