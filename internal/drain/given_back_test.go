package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/drain"
)

// A node from which this drain's record was taken while the drain goes on elsewhere was given back: it is not cordoned anew,
// and what was started on it since is left alone.
func TestNodeThatWasGivenBackIsLeftAlone(t *testing.T) {
	cases := map[string]struct {
		facts fact
		said  string
		state drain.NodeState
		held  []string
		shown []string
		ends  drain.Outcome
	}{
		"it was drained":       {gone("web"), "drained", drain.NodeDrained, []string{"slow: Terminating"}, []string{"slow terminating", "web ended"}, drain.Drained},
		"it was blocked":       {all(), "blocked", drain.NodeBlocked, []string{"slow: Terminating", "a: NodeNotCordoned!"}, []string{"web waiting", "slow terminating"}, drain.Blocked},
		"it was being drained": {all(), "draining", drain.NodeBlocked, []string{"slow: Terminating", "a: NodeNotCordoned!"}, []string{"web waiting", "slow terminating"}, drain.Blocked},
	}
	opened := map[string]func(said string) func(*nodeOf){
		"usher uncordon": func(string) func(*nodeOf) { return func(*nodeOf) {} },
		"kubectl uncordon": func(said string) func(*nodeOf) {
			return func(n *nodeOf) { ours(n); schedulable(n); n.Drain.State = said }
		},
	}
	for name, c := range cases {
		for how, open := range opened {
			t.Run(name+", "+how, func(t *testing.T) {
				s := tell(t, ask("a", "b"), node("a"), node("b"), pod("web", on("a")), pod("slow", on("b"), endsAt(start.Add(time.Hour))))
				s.expect("cordon a draining", "cordon b draining")
				s.answer(drain.Accepted)
				s.then(time.Second, node("a", ours, version("2")), node("b", ours, version("2")))
				s.expect("evict web")
				s.answer(drain.Accepted)
				s.then(time.Second, c.facts, node("a", ours, state(c.said), version("3")))
				s.decide()
				s.answer(drain.Accepted)
				s.then(time.Second, node("a", open(c.said), version("4")), pod("new", on("a"), createdAt(s.now)))
				s.expect()
				s.holds(c.held...)
				same(t, "state", c.state, s.last.Nodes[0].State)
				same(t, "pods", c.shown, shown(s.last))
				s.ends(drain.Running)
				s.then(time.Second, gone("slow"))
				s.expect("mark b drained")
				s.answer(drain.Accepted)
				s.then(time.Second, node("b", ours, state("drained"), version("3")))
				s.expect()
				s.ends(c.ends)
				s.led.End(c.ends)
				s.decide()
				same(t, "state at the end", c.state, s.last.Nodes[0].State)
			})
		}
	}
}

// A node that was given back stays so for as long as the drain goes on elsewhere, whoever has it meanwhile.
func TestNodeThatWasGivenBackStaysSo(t *testing.T) {
	type look = []func(*nodeOf)
	anew := drainedBy("other", start.Add(time.Minute))
	other := func(options ...func(*nodeOf)) look {
		return append(look{anew, cordonedAt(start.Add(time.Minute))}, options...)
	}
	open, opened := look{}, look{ours, schedulable}
	cases := map[string][]look{
		"another drain is interrupted":                     {open, other(), other(state("interrupted"))},
		"… and does not tidy up":                           {open, other(), other(dead)},
		"another drain ends, and the node is opened":       {open, other(), other(state("drained"), schedulable)},
		"another drain uncordons it again":                 {opened, other(), open},
		"another drain has taken it over, then it is open": {look{anew}, look{anew, state("drained"), schedulable}, look{anew}, other(dead)},
		"what opened it was not seen":                      {other(), other(state("interrupted"))},
		"it is cordoned by hand":                           {opened, look{ours, cordonedAnew}},
		"its record cannot be read":                        {open, look{cordoned, unreadableRecord}},
	}
	for name, steps := range cases {
		for said, want := range map[string]drain.NodeState{"drained": drain.NodeDrained, "draining": drain.NodeBlocked} {
			t.Run(name+", "+said, func(t *testing.T) {
				own := func(n *nodeOf) {
					if n.Drain != nil && n.Drain.ID == me {
						n.Drain.State = said
					}
				}
				s := tell(t, ask("a", "b"), node("a"), node("b"), pod("web", on("a")), pod("slow", on("b"), endsAt(start.Add(time.Hour))))
				s.expect("cordon a draining", "cordon b draining")
				s.answer(drain.Accepted)
				s.then(time.Second, node("a", ours, version("2")), node("b", ours, version("2")))
				s.expect("evict web")
				s.answer(drain.Accepted)
				s.then(time.Second, gone("web"), node("a", ours, own, version("3")))
				s.decide()
				s.answer(drain.Accepted)
				for _, seen := range steps {
					s.then(time.Second, node("a", append(seen, own)...), pod("new", on("a"), createdAt(s.now)))
					s.expect()
					s.ends(drain.Running)
				}
				same(t, "state", want, s.last.Nodes[0].State)
				same(t, "pods", []string{"slow terminating", "web ended"}, shown(s.last))
				s.then(time.Hour, gone("slow"), node("b", drainedBy(me, start.Add(time.Hour)), version("3")))
				s.expect("mark b drained")
			})
		}
	}
}

// cordonedAt is a node whose record says that it was cordoned then.
func cordonedAt(t time.Time) func(*nodeOf) { return func(n *nodeOf) { n.Drain.Since = t } }

// dead is a node whose drain has given no sign of life for long.
func dead(n *nodeOf) { n.Drain.Beat = start.Add(-time.Hour) }

func unreadableRecord(n *nodeOf) { n.DrainError = "not JSON" }

// What lands on a node that was opened again takes the place of what left, and nothing keeps it there. What was seen there just
// before the node was seen open is no affair of the drain either.
func TestPodsOnANodeThatWasOpenedAgain(t *testing.T) {
	for how, opened := range map[string]func(*nodeOf){"usher uncordon": func(*nodeOf) {}, "kubectl uncordon": func(n *nodeOf) { ours(n); schedulable(n) }} {
		t.Run(how, func(t *testing.T) {
			s := tell(t, never("a", "b"), node("a"), node("b"), deployment("web", 2), pods("web", "a", 1), pods("web", "b", 1), pod("slow", on("a"), endsAt(start.Add(time.Hour))))
			s.expect("cordon a draining", "cordon b draining")
			s.answer(drain.Accepted)
			s.then(time.Second, node("a", ours, version("2")), node("b", ours, version("2")))
			s.expect("evict web-a1", "evict web-b1")
			s.answer(drain.Accepted)
			s.then(time.Second, gone("web-a1", "web-b1"), pod("web-n1", on("a"), of("web"), createdAt(s.now)))
			s.decide()
			s.answer(drain.Accepted)
			s.then(time.Second, node("a", opened, version("3")), pod("web-n2", on("a"), of("web"), createdAt(s.now)))
			s.decide()
			s.holds("slow: Terminating", "a: NodeNotCordoned!")
			same(t, "left", 1, s.last.Nodes[0].Left)
			same(t, "pods", []string{"slow terminating", "web-a1 replaced", "web-b1 replaced"}, shown(s.last))
		})
	}
}

// It takes no place from a node that drains, whatever is detached from it, and whatever becomes of the pods that stayed on it.
func TestNodeThatWasGivenBackTakesNoPlace(t *testing.T) {
	req := ask("a", "b")
	req.MaxParallel = 1
	s := tell(t, req, node("a"), node("b"), pod("web", on("b")), daemonSet("net"), pod("net", on("a"), ofDaemon("net")))
	s.expect("cordon a draining", "cordon b draining")
	s.answer(drain.Accepted)
	s.then(time.Second, node("a", ours, state("drained"), version("2")))
	s.expect()
	s.then(time.Second, node("a", version("3")), attached("v", "a"), node("b", ours, version("2")), func(c *clusterOf) { c.DeleteWorkload("uid-net") })
	s.expect("evict web")
	same(t, "pods that are left", 0, s.last.Nodes[0].Left)
}
