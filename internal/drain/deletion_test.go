package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

// A user who chose --at-deadline=delete wants the deletion, also past a budget that can never allow the eviction.
func TestDeadBudgetIsHeldUntilTheDeletion(t *testing.T) {
	req := ask("a")
	req.Deadline, req.AtDeadline = start.Add(time.Minute), drain.AtDeadlineDelete
	s := tell(t, req, node("a", ours), deadSet("pa", "a"))
	s.expect()
	s.holds("pa: BudgetNeverAllows!")
	s.ends(drain.Running)
	s.then(55 * time.Second)
	s.expect("mark a draining", "delete pa in 1s")
}

// What no deletion passes over ends the drain at once.
func TestObjectionIsNotHeldUntilTheDeletion(t *testing.T) {
	req := ask("a")
	req.Deadline, req.AtDeadline, req.DeleteEmptyDir = start.Add(time.Minute), drain.AtDeadlineDelete, false
	s := tell(t, req, node("a", ours), pod("pa", on("a"), emptyDir("data")))
	s.expect("mark a blocked")
	s.holds("pa: LocalStorage!")
	s.answer(answers.Accepted)
	s.then(time.Millisecond, node("a", ours, state("blocked"), version("2")))
	s.expect()
	s.ends(drain.Blocked)
}
