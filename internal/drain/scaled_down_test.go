package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
)

// A scaling down asks no budget, but what it removes is missing under the budget: no
// eviction goes on top of it while the budget's status does not show it.
func TestScalingDownUsesTheBudget(t *testing.T) {
	s := scaledDown(t, 3)
	s.then(time.Second, deployment("web", 2, at("2")), gone("web-a1"))
	s.expect()
	s.holds("web-a2: BudgetExhausted")
	s.then(time.Second, deployment("web", 3, at("3")), pod("web-c", on("b"), of("web")), budget("web", 3, 2, 3, minAvailable("2"), budgetVersion("2")))
	s.expect("evict web-a2")
}

// A status that is newer may be about another pod that went just before, and count what the scaling down has removed.
func TestANewerStatusMayBeOlderThanTheScalingDown(t *testing.T) {
	s := scaledDown(t, 4)
	s.then(time.Second, deployment("web", 2, at("2")), gone("web-a1"), budget("web", 3, 2, 3, minAvailable("2"), budgetVersion("2")))
	s.expect()
	s.holds("web-a2: BudgetExhausted")
	s.then(time.Second, deployment("web", 3, at("3")), pod("web-c", on("b"), of("web")), budget("web", 3, 2, 3, minAvailable("2"), budgetVersion("3")))
	s.expect("evict web-a2")
}

// Replacements that were not seen when it was scaled are counted by the budget as soon as they are ready. As many pods go as
// there are too many; which ones, only the controller knows.
func TestScalingDownUsesTheBudgetOfLatePods(t *testing.T) {
	s := scaledDown(t, 3)
	late := all(pod("web-c", on("b"), of("web")), pod("web-d", on("b"), of("web")))
	counted := budget("web", 5, 1, 5, minAvailable("1"), budgetVersion("2"))
	s.then(time.Minute, deployment("web", 2, at("2")), node("a", drainedBy(me, start.Add(time.Minute))), late, counted)
	s.expect("evict web-a1") // three of five are to go, and of the two others one
	s.answer(answers.Accepted)
	s.then(time.Second, gone("web-b"), gone("web-d"))
	s.expect() // one is still to go, and the budget counts two that have gone
	s.holds("web-a2: BudgetExhausted")
}

// TestLateStatusIsSaid: no eviction of the drain has used the budget.
func TestLateStatusIsSaid(t *testing.T) {
	s := scaledDown(t, 3)
	s.then(time.Second, deployment("web", 2, at("2")), gone("web-b"))
	s.expect()
	same(t, "message", "budget web needs 2 healthy and has 2, though its status still counts 3", s.status("web-a1").Blockers[0].Message)
}

// scaledDown is a drain that has just ended the surge of another one: of three pods, two of them on the node, one is to go.
// The budget needs two healthy pods and expects as many as given.
func scaledDown(t *testing.T, expected int32) *story {
	t.Helper()
	s := tell(t, ask("a"), node("a", ours), node("b"),
		deployment("web", 3, surgedBy("killed", 2, start.Add(-time.Hour))), pods("web", "a", 2), pod("web-b", on("b"), of("web")),
		budget("web", 3, 2, expected, minAvailable("2")))
	s.expect("scale web to 2, no record")
	s.answer(answers.Accepted)
	return s
}
