package drain_test

import (
	"fmt"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
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
	stays := func(after time.Duration, counted int, facts ...fact) {
		t.Helper()
		s.then(after, append(facts, node("a", drainedBy(me, s.now.Add(after))))...)
		s.expect()
		s.holds("web-a1: BudgetExhausted")
		same(t, "message", moreThanKept(3, 4, counted), s.status("web-a1").Blockers[0].Message)
	}
	stays(0, 1)
	stays(time.Minute, 1)
	stays(30*time.Second, 2, deployment("web", 2)) // once more
	stays(119*time.Second, 2)
	s.then(time.Second, node("a", drainedBy(me, s.now)))
	s.expect("evict web-a1")
}

// moreThanKept is what is said where pods of a budget are no room under it.
func moreThanKept(needs, has, extra int) string {
	return fmt.Sprintf("budget web needs %d healthy and has %d, %d of which are more than their workloads are to keep (a rollout, a surge, or a scaling down)", needs, has, extra)
}

// What a surge has added is no room for the pods of another workload under the same budget: it goes by scaling down, which asks no budget.
func TestSurgeIsNoRoomForOthers(t *testing.T) {
	ofDB := func(p *snapshot.Pod) { p.Labels = map[string]string{"app": "web"} }
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 1), pods("web", "a", 1),
		statefulSet("db", 1), pod("db-0", on("a"), ofSet("db"), ofDB), budget("web", 2, 2, 2, minAvailable("2")))
	s.expect("scale web to 2, was 1")
	s.answer(answers.Accepted)
	s.then(20*time.Second, node("a", drainedBy(me, s.now.Add(20*time.Second))), deployment("web", 2, at("2"), surgedBy(me, 1, s.now.Add(20*time.Second))),
		pod("web-b", on("b"), of("web")), budget("web", 3, 2, 3, minAvailable("2"), budgetVersion("2")))
	s.expect("lower-cost web-a1")
	same(t, "message", moreThanKept(2, 3, 1), s.status("db-0").Blockers[0].Message)
}

// A surplus is waited for once: neither what is evicted meanwhile nor a pod that is unready for a while has it waited for again.
func TestSurplusIsWaitedForOnce(t *testing.T) {
	full := func(version string) fact {
		return budget("web", 4, 3, 4, minAvailable("3"), budgetVersion(version))
	}
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 3, rolling), pods("web", "a", 2), pods("web", "b", 2), full("1"))
	then := func(after time.Duration, facts ...fact) {
		s.then(after, append(facts, node("a", drainedBy(me, s.now.Add(after))))...)
	}
	s.expect()
	then(time.Minute, pod("web-b2", on("b"), of("web"), unready), budget("web", 3, 3, 4, minAvailable("3"), budgetVersion("2")))
	s.expect()
	then(time.Minute, pod("web-b2", on("b"), of("web")), full("3"))
	s.expect("evict web-a1")
	s.answer(answers.Accepted)
	then(time.Second, pod("web-a1", on("a"), of("web"), endsAt(s.now.Add(time.Second))), budget("web", 3, 3, 4, minAvailable("3"), budgetVersion("4"), disrupted("web-a1")))
	s.expect()
	then(10*time.Second, gone("web-a1"), pod("web-c", on("b"), of("web")), full("5"))
	s.expect("evict web-a2")
}

// Another drain of the same process goes by what the first one has seen.
func TestSurplusIsSharedInAProcess(t *testing.T) {
	charges := &drain.Charges{}
	s := tell(t, ask("a"), node("a", ours), node("c", drainedBy("second", start)), node("b"), deployment("web", 3, rolling), pods("web", "a", 1), pods("web", "c", 1), pods("web", "b", 2),
		budget("web", 4, 3, 4, minAvailable("3")))
	charges.Join(s.led)
	s.expect()
	s.then(2*time.Minute, node("a", drainedBy(me, s.now.Add(2*time.Minute))), node("c", drainedBy("second", s.now.Add(2*time.Minute))))
	second := s.together(charges, "second", "c")
	second.expect("evict web-c1")
}

// A StatefulSet's controller removes the pods with the highest ordinals, also where others are not ready.
func TestSurplusOfAStatefulSet(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), statefulSet("db", 2), pod("db-0", on("a"), ofSet("db")), pod("db-1", on("b"), ofSet("db"), unready),
		pod("db-2", on("b"), ofSet("db")), budget("db", 2, 1, 3, minAvailable("1")))
	s.expect()
	s.holds("db-0: BudgetExhausted")
}

// A StatefulSet's pod that terminates comes back: a budget that misses it is used up, and not one that can never allow anything.
func TestPodThatComesBackIsExpected(t *testing.T) {
	shared := func(p *snapshot.Pod) { p.Labels = map[string]string{"app": "p"} }
	facts := []fact{
		node("a", ours), node("b"), statefulSet("p", 2), statefulSet("r", 2), pod("r-0", on("a"), ofSet("r"), shared), pod("r-1", on("b"), ofSet("r"), shared),
		pod("p-0", on("b"), ofSet("p")), budget("p", 3, 3, 4, minAvailable("3")),
	}
	s := tell(t, ask("a"), append(facts, pod("p-1", on("b"), ofSet("p"), endsAt(start.Add(time.Minute))))...)
	s.expect()
	s.holds("r-0: BudgetExhausted")
}
