package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
)

// The server answers cordons in any order: the places are for the first nodes, not for the first answers.
func TestPlaceIsKeptForANodeThatIsBeingCordoned(t *testing.T) {
	req := ask("a", "b")
	req.MaxParallel = 1
	s := tell(t, req, node("a"), node("b"), pod("pa", on("a")), pod("pb", on("b")))
	s.expect("cordon a draining", "cordon b draining")
	s.answer(answers.Accepted)
	s.then(time.Millisecond, node("b", ours, version("2")))
	s.expect()
	s.then(time.Millisecond, node("a", ours, version("2")))
	s.expect("evict pa")
}

// A node that becomes free later must not push one out whose pods have begun to leave.
func TestBegunNodeKeepsItsPlace(t *testing.T) {
	req := ask("a", "b")
	req.MaxParallel = 1
	s := tell(t, req, node("a", drainedBy("other", start)), node("b", ours), pod("pa", on("a")), pod("pb", on("b")), pod("pc", on("b"), priority(1)))
	s.expect("evict pb")
	s.answer(answers.Accepted)
	s.then(time.Millisecond, gone("pb"), node("a", ours, version("2")))
	s.expect("evict pc")
	s.answer(answers.Accepted)
	s.then(time.Millisecond, gone("pc"))
	s.expect("evict pa", "mark b drained")
}
