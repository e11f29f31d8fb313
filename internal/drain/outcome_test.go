package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

func TestOutcomes(t *testing.T) {
	done := node("a", ours, state("drained"))
	stuck := node("a", ours, state("blocked"))
	cases := map[string]struct {
		facts fact
		want  drain.Outcome
		state drain.NodeState
	}{
		"nothing on the node":              {done, drain.Drained, drain.NodeDrained},
		"only pods that stay":              {all(done, daemonSet("d"), pod("d", on("a"), ofDaemon("d"))), drain.Drained, drain.NodeDrained},
		"a pod on its way out":             {all(node("a", ours), pod("p", on("a"), endsAt(start.Add(time.Second)))), drain.Running, drain.NodeDraining},
		"only a pod that is held for ever": {all(stuck, deadSet("db", "a")), drain.Blocked, drain.NodeBlocked},
		"… and one that is on its way":     {all(node("a", ours), deadSet("db", "a"), pod("p", on("a"), endsAt(start.Add(time.Second)))), drain.Running, drain.NodeDraining},
		"a pod that is held for now":       {all(node("a", ours), pod("p", on("a"), of("web")), budget("web", 1, 1, 2, maxUnavailable("1"))), drain.Running, drain.NodeDraining},
		"no such node":                     {node("b"), drain.Drained, drain.NodeMissing},
		"not cordoned yet":                 {node("a"), drain.Running, drain.NodePending},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), c.facts)
			s.decide()
			s.ends(c.want)
			same(t, "node", c.state, s.last.Nodes[0].State)
		})
	}
}

// One node that is stuck does not end the drain of the others, and is not forgotten.
func TestOneBlockedNodeOfTwo(t *testing.T) {
	s := tell(t, ask("a", "b"), node("a", ours, state("blocked")), node("b", ours), deadSet("db", "a"), pod("web", on("b")))
	s.expect("evict web")
	s.ends(drain.Running)
	s.answer(answers.Accepted)
	s.then(time.Second, gone("web"))
	s.expect("mark b drained")
	s.answer(answers.Accepted)
	s.then(time.Second, node("b", ours, state("drained"), version("2")))
	s.expect()
	s.ends(drain.Blocked)
	s.holds("db: BudgetNeverAllows!")
}

// A node that was uncordoned by another client is blocked although no pod of it is left.
func TestUncordonedNodeIsNotDrained(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours, schedulable))
	s.expect()
	s.ends(drain.Blocked)
	s.holds("a: NodeNotCordoned!")
}

// What is known of a cluster whose watch is broken is not acted on.
func TestBlindDrainWaits(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, pod("web", on("a")))
	view := s.view()
	view.Blind = start.Add(-9 * time.Second)
	if d := drain.Decide(view, s.req, s.led); len(deeds(d)) != 2 || d.Next != start.Add(time.Second) {
		t.Errorf("after nine seconds: %v, next look %v", deeds(d), d.Next)
	}
	view.Blind = start.Add(-10 * time.Second)
	d := drain.Decide(view, s.req, s.led)
	same(t, "actions", nil, deeds(d))
	same(t, "blockers", []string{"web: EvidenceUnavailable", "web-a1: EvidenceUnavailable", "web-a1: EvidenceUnavailable"}, reasons(d))
	same(t, "outcome", drain.Running, d.Outcome)
}

// What ended a drain from outside did not block it.
func TestStateOfNodesThatAreNotEmptyAtTheEnd(t *testing.T) {
	for ending, want := range map[drain.Outcome]drain.NodeState{
		drain.Interrupted:    drain.NodeInterrupted,
		drain.TimedOut:       drain.NodeTimedOut,
		drain.DeadlinePassed: drain.NodeLate,
		drain.Blocked:        drain.NodeBlocked,
		drain.NoAccess:       drain.NodeBlocked,
	} {
		s := tell(t, ask("a", "b"), node("a", ours), node("b", ours), pods("web", "a", 2))
		s.led.End(ending)
		s.decide()
		same(t, "states at "+string(ending), []drain.NodeState{want, drain.NodeDrained}, []drain.NodeState{s.last.Nodes[0].State, s.last.Nodes[1].State})
	}
}
