package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
)

// What this drain has used of a budget counts until the budget's status shows it.

func TestEvictionsOfOneDecisionShareTheBudget(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), deployment("web", 5), pods("web", "a", 4), pods("web", "b", 1), budget("web", 5, 3, 5, maxUnavailable("2")))
	s.expect("evict web-a1", "evict web-a2")
	s.holds("web-a3: BudgetExhausted", "web-a4: BudgetExhausted")
	same(t, "message", "budget web is used up by 2 evictions of this drain", s.status("web-a3").Blockers[0].Message)
}

func TestNodesShareTheBudget(t *testing.T) {
	s := tell(t, ask("a", "b"), node("a", ours), node("b", ours), deployment("web", 4),
		pods("web", "a", 2), pods("web", "b", 2), budget("web", 4, 3, 4, maxUnavailable("1")))
	s.expect("evict web-a1")
}

func TestUsedBudget(t *testing.T) {
	stale := budget("web", 4, 3, 4, maxUnavailable("1"))
	cases := map[string]struct {
		answer answers.Code // "" for none yet
		then   fact
		want   []string
	}{
		"no answer yet":                         {"", stale, nil},
		"accepted, stale status":                {answers.Accepted, stale, nil},
		"accepted, pod seen going, status not":  {answers.Accepted, all(stale, pod("web-a1", on("a"), of("web"), endsAt(start.Add(time.Minute)))), nil},
		"accepted, pod seen gone, status not":   {answers.Accepted, all(stale, gone("web-a1")), nil},
		"a status that names the pod is heeded": {answers.Accepted, budget("web", 4, 3, 4, maxUnavailable("1"), disrupted("web-a1"), budgetVersion("2")), []string{"evict web-a2"}},
		"a status that names another one is not": {
			answers.Accepted,
			budget("web", 4, 3, 4, maxUnavailable("1"), disrupted("web-x"), budgetVersion("2")), nil,
		},
		"a newer status, pod seen going": {
			answers.Accepted,
			all(budget("web", 4, 3, 4, maxUnavailable("1"), budgetVersion("2")), pod("web-a1", on("a"), of("web"), endsAt(start.Add(time.Minute)))),
			[]string{"evict web-a2"},
		},
		"a newer status, pod not seen going": {answers.Accepted, budget("web", 4, 3, 4, maxUnavailable("1"), budgetVersion("2")), nil},
		"another budget of that name": {
			answers.Accepted,
			budget("web", 4, 3, 4, maxUnavailable("1"), named("web2")), nil,
		},
		"refused: nothing was used":                            {answers.Denied, stale, []string{"evict web-a2"}},
		"no answer came: it may have been carried out":         {answers.Unavailable, stale, nil},
		"gone when it was asked for: the server counted none":  {answers.Gone, all(stale, gone("web-a1")), []string{"evict web-a2"}},
		"refused by the budget although its status has room":   {answers.RefusedByBudget, stale, []string{"evict web-a2"}},
		"a conflict: nothing was used, another one may try it": {answers.Conflict, stale, []string{"evict web-a2"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), node("a", ours), deployment("web", 5), pods("web", "a", 2), pods("web", "b", 3), stale)
			s.expect("evict web-a1")
			if c.answer != "" {
				s.answer(c.answer)
			}
			s.then(time.Millisecond, c.then)
			s.expect(c.want...)
		})
	}
}

// A status that names a former pod of a StatefulSet's name, which came back before the controller looked, does not show an eviction.
func TestUsedBudgetOfAPodThatCameBack(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), statefulSet("web", 4), pods("web", "a", 2), pods("web", "b", 3),
		budget("web", 5, 3, 5, maxUnavailable("2"), disruptedAt(start.Add(-time.Minute), "web-a1"), allowing(1)))
	s.expect("evict web-a1")
	s.then(time.Millisecond)
	s.expect()
	s.then(time.Millisecond, budget("web", 5, 3, 5, maxUnavailable("2"), disruptedAt(start, "web-a1"), budgetVersion("2"), allowing(1)))
	s.expect("evict web-a2")
}

// The disruption controller drops a pod from disruptedPods after two minutes; an
// eviction whose effect is never seen must not hold the budget longer than that.
func TestUsedBudgetIsForgotten(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), deployment("web", 4), pods("web", "a", 2), pods("web", "b", 2), budget("web", 4, 3, 4, maxUnavailable("1")))
	s.expect("evict web-a1")
	s.answer(answers.Accepted)
	s.then(2*time.Minute, budget("web", 4, 3, 4, maxUnavailable("1"), budgetVersion("2")), node("a", drainedBy(me, start.Add(2*time.Minute))))
	s.led.Observe(s.view())
	s.then(time.Second)
	s.expect("evict web-a1")
}

// What another process or a person has scaled away is ready until its controller removes it, and no room. It is waited for as long as
// controllers take: a paused rollout has more pods than it is to have for ever.
func TestScaledAwayElsewhere(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 3), pods("web", "a", 1), pods("web", "b", 3), budget("web", 4, 3, 4, maxUnavailable("1")))
	stays := func(after time.Duration, counted string, facts ...fact) {
		t.Helper()
		s.then(after, append(facts, node("a", drainedBy(me, s.now.Add(after))))...)
		s.expect()
		s.holds("web-a1: BudgetExhausted")
		same(t, "message", "budget web still counts "+counted+" of a workload that was scaled down", s.status("web-a1").Blockers[0].Message)
	}
	stays(0, "1 pod")
	stays(time.Minute, "1 pod")
	stays(30*time.Second, "2 pods", deployment("web", 2)) // once more
	stays(119*time.Second, "2 pods")
	s.then(time.Second, node("a", drainedBy(me, s.now)))
	s.expect("evict web-a1")
}
