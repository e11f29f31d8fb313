package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

func TestPodsOnTheirWayOut(t *testing.T) {
	soon, past, longPast := endsAt(start.Add(20*time.Second)), endsAt(start.Add(-5*time.Second)), endsAt(start.Add(-2*time.Minute))
	cases := map[string]struct {
		node, pod fact
		held      string
		says      string
	}{
		"its grace runs":            {node("a", ours), pod("p", on("a"), soon), "p: Terminating", "ends by itself, at the latest in 20s"},
		"its grace is over":         {node("a", ours), pod("p", on("a"), past), "p: Terminating", "its grace is over, the kubelet is cleaning up"},
		"its grace is just over":    {node("a", ours), pod("p", on("a"), endsAt(start)), "p: Terminating", "its grace is over, the kubelet is cleaning up"},
		"overdue":                   {node("a", ours), pod("p", on("a"), longPast), "p: OverdueOnNode", "its grace ended 2m ago and the kubelet still has it"},
		"held by finalizers":        {node("a", ours), pod("p", on("a"), past, finalizer("x/hold", "y/hold")), "p: HeldByFinalizers", "held by finalizer x/hold, which a controller of x removes, finalizer y/hold, which a controller of y removes"},
		"finalizers while it ends":  {node("a", ours), pod("p", on("a"), soon, finalizer("x/hold")), "p: Terminating", "ends by itself, at the latest in 20s"},
		"its node is silent":        {node("a", ours, silent), pod("p", on("a"), past), "p: NodeUnreachable", "its node does not answer: Kubelet stopped posting node status."},
		"a silent node, grace runs": {node("a", ours, silent), pod("p", on("a"), soon), "p: NodeUnreachable", "its node does not answer: Kubelet stopped posting node status."},
		"ended, grace runs":         {node("a", ours), pod("p", on("a"), soon, finalizer("hold"), phase("Succeeded")), "p: HeldByFinalizers", "held by finalizer hold, which the controller that set it removes"},
		"its node is gone":          {all(), pod("p", on("a"), soon), "p: NodeUnreachable", "its node is gone; the pod garbage collector of the control plane removes it"},
		"gone, and not asked yet":   {all(), pod("p", on("a")), "p: NodeUnreachable", "its node is gone; the pod garbage collector of the control plane removes it"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), c.node, c.pod)
			s.expect()
			s.holds(c.held)
			s.ends(drain.Running)
			same(t, "message", c.says, s.status("p").Blockers[0].Message)
		})
	}
}

// What changes with the clock alone is looked at again without an event.
func TestLeavingPodIsLookedAtAgain(t *testing.T) {
	ends := start.Add(10 * time.Second)
	s := tell(t, ask("a"), node("a", ours), pod("p", on("a"), endsAt(ends), finalizer("x/hold")))
	s.expect()
	same(t, "next", ends, s.last.Next)
	s.then(10 * time.Second)
	s.decide()
	s.holds("p: HeldByFinalizers")
	same(t, "since", ends, s.status("p").Blockers[0].Since)

	s = tell(t, ask("a"), node("a", ours), pod("p", on("a"), endsAt(ends)))
	s.then(11*time.Second, node("a", drainedBy(me, ends)))
	s.expect()
	same(t, "next is the beat", ends.Add(15*time.Second), s.last.Next)
	same(t, "retry", ends.Add(time.Minute), s.status("p").Blockers[0].Retry)
}

func TestNodeDeletedMidDrain(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("web", on("a")))
	s.expect("evict web")
	s.answer(answers.Accepted)
	s.then(time.Second, func(c *clusterOf) { c.DeleteNode("a") })
	s.expect()
	s.ends(drain.Running)
	same(t, "state", drain.NodeMissing, s.last.Nodes[0].State)
	s.then(time.Second, gone("web"))
	s.expect()
	s.ends(drain.Drained)
}

// What is bound to a node that was deleted is left when the drain ends before the control plane has removed it.
func TestPodsLeftOnANodeThatWasDeleted(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("held", on("a"), of("web")), budget("web", 2, 2, 3), pod("p", on("a")))
	s.expect("evict p")
	s.answer(answers.Accepted)
	s.then(time.Second, func(c *clusterOf) { c.DeleteNode("a") }, pod("p", on("a"), endsAt(start.Add(time.Minute))))
	s.led.End(drain.Interrupted)
	s.expect()
	same(t, "state", drain.NodeMissing, s.last.Nodes[0].State)
	same(t, "left", 2, s.last.Nodes[0].Left)
	s.holds("held: NodeUnreachable", "p: NodeUnreachable")
	same(t, "states", []string{"held waiting", "p terminating"}, s.states())
}

// Pods are bound to the name of their node: they run on where another one of that name takes its place.
func TestPodsOnANodeThatWasReplaced(t *testing.T) {
	s := tell(t, never("a"), node("a"), pod("web", on("a"), of("web")), budget("web", 1, 1, 1), pod("free", on("a")), pod("d", on("a"), ofDaemon("d")), daemonSet("d"))
	s.expect("cordon a draining")
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours))
	s.expect("evict free")
	s.answer(answers.Accepted)
	s.then(time.Second, func(c *clusterOf) { c.DeleteNode("a") })
	s.expect()
	s.then(time.Second, node("a", func(n *nodeOf) { n.UID = "another" }), pod("new", on("a")), pod("free", on("a"), endsAt(s.now.Add(time.Minute))))
	s.expect()
	s.ends(drain.Blocked)
	same(t, "nodes", []string{"a: NodeReplaced!"}, nodeReasons(s.last))
	same(t, "left", 2, s.last.Nodes[0].Left)
	s.then(time.Second, gone("free"))
	s.expect()
	s.led.End(drain.Blocked)
	s.expect()
	same(t, "nodes in the end", []string{"a: NodeReplaced!"}, nodeReasons(s.last))
	same(t, "state in the end", drain.NodeBlocked, s.last.Nodes[0].State)
	same(t, "left in the end", 1, s.last.Nodes[0].Left)
}

// What is ending when its node is replaced is waited for, and nothing else is.
func TestPodsThatEndOnANodeThatWasReplaced(t *testing.T) {
	s := tell(t, never("a"), node("a"), pod("web", on("a")))
	s.expect("cordon a draining")
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours))
	s.expect("evict web")
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", func(n *nodeOf) { n.UID = "another" }))
	s.expect()
	same(t, "states", []string{"web evicting"}, s.states())
	s.then(time.Second, pod("web", on("a"), endsAt(s.now.Add(time.Minute))))
	s.expect()
	same(t, "states", []string{"web terminating"}, s.states())
	s.holds("web: Terminating")
	s.ends(drain.Running)
	s.then(time.Second, gone("web"))
	s.expect()
	s.ends(drain.Drained)
}

func TestNodeThatCameBackIsAnother(t *testing.T) {
	s := tell(t, ask("a"), node("a"), pod("web", on("a")))
	s.expect("cordon a draining")
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", func(n *nodeOf) { n.UID = "another" }), gone("web"), pod("new", on("a")))
	s.expect()
	same(t, "state", drain.NodeMissing, s.last.Nodes[0].State)
	s.ends(drain.Drained)
}
