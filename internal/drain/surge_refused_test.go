package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// A surge that cannot be taken back holds the drain for as long as undoing is tried, and what is left is said at the end.
func TestSurgeThatCannotBeTakenBack(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "b", 2))
	for range 20 {
		s.decide()
		if s.last.Outcome != drain.Running {
			break
		}
		s.answer(answers.Unavailable)
		s.then(30*time.Second, node("a", drainedBy(me, s.now.Add(30*time.Second)), state("drained")))
	}
	s.ends(drain.Drained)
}

// While the pods of the surge are there, it is named that they cannot be scaled away.
func TestSurgeThatCannotBeScaledDown(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "a", 1, marked(me)), pods("web", "b", 1),
		budget("web", 2, 1, 1, maxUnavailable("0")))
	for range 20 {
		s.decide()
		s.answer(answers.Unavailable)
		s.then(30*time.Second, node("a", drainedBy(me, s.now.Add(30*time.Second))))
	}
	s.decide()
	b := s.status("web-a1").Blockers[0]
	same(t, "message", "web cannot be scaled down to 1: server says Unavailable", b.Message)
	same(t, "dead", true, b.Dead)
}

// Where a quota refuses the replacements, a surge that no budget asks for is given up, and the pods are evicted.
func TestSurgeThatAQuotaRefusesIsGivenUp(t *testing.T) {
	refused := func(w *snapshot.Workload) { w.PodsRefused = "exceeded quota: q" }
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 2, surgedBy(me, 1, start), refused), pods("web", "a", 1))
	s.then(5*time.Minute-time.Second, node("a", drainedBy(me, start.Add(5*time.Minute))))
	s.expect()
	s.then(time.Second)
	s.expect("scale web to 1, no record")
	same(t, "why", "no replacement could be created within 5m: exceeded quota: q", s.last.Actions[0].GiveUp)
}

// A surge that can end only by evictions that a budget never allows says which budget that is.
func TestSurgeThatABudgetNeverLetsGo(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "a", 1), pods("web", "b", 1), budget("web", 2, 2, 2, maxUnavailable("0")))
	s.expect("lower-cost web-a1")
	s.answer(answers.Denied)
	s.decide()
	blockers := s.status("web-a1").Blockers
	b := blockers[len(blockers)-1]
	same(t, "message", "its replacement is ready; it can leave only by an eviction, which its budgets never allow", b.Message)
	same(t, "remedy", "kubectl edit pdb -n default web, which never allows an eviction", b.Remedy)
}
