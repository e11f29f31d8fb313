package drain_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
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
				s.answer(answers.Accepted)
				s.then(time.Second, node("a", ours, version("2")), node("b", ours, version("2")))
				s.expect("evict web")
				s.answer(answers.Accepted)
				s.then(time.Second, c.facts, node("a", ours, state(c.said), version("3")))
				s.decide()
				s.answer(answers.Accepted)
				s.then(time.Second, node("a", open(c.said), version("4")), pod("new", on("a"), createdAt(s.now)))
				s.expect()
				s.holds(c.held...)
				same(t, "state", c.state, s.last.Nodes[0].State)
				same(t, "pods", c.shown, shown(s.last))
				s.ends(drain.Running)
				s.then(time.Second, gone("slow"))
				s.expect("mark b drained")
				s.answer(answers.Accepted)
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

// A node that was given back stays so for as long as the drain goes on elsewhere, also where another drain has it meanwhile.
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
		"… and what opened it was not seen":                {look{ours, cordonedAnew}},
		"… which another drain has found":                  {other(foundCordoned, state("interrupted"))},
		"… after another drain has taken it over":          {look{anew, cordonedAnew, state("interrupted")}},
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
				s.answer(answers.Accepted)
				s.then(time.Second, node("a", ours, version("2")), node("b", ours, version("2")))
				s.expect("evict web")
				s.answer(answers.Accepted)
				s.then(time.Second, gone("web"), node("a", ours, own, version("3")))
				s.decide()
				s.answer(answers.Accepted)
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

// A node that the drain has found cordoned, and another drain has not, was made schedulable in between.
func TestNodeThatWasFoundCordonedIsGivenBack(t *testing.T) {
	s := tell(t, ask("a"), node("a", cordoned), pod("slow", on("a"), endsAt(start.Add(time.Hour))))
	s.expect("cordon a draining")
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, foundCordoned, cordonedAnew, version("2")))
	s.expect()
	s.holds("slow: Terminating")
	s.then(time.Second, node("a", drainedBy("other", s.now), state("interrupted"), version("3")))
	s.expect()
	s.holds("slow: Terminating", "a: NodeNotCordoned!")
}

// A cordon that another client has applied as well was not taken off before.
func TestCordonThatIsAppliedAsWell(t *testing.T) {
	s := tell(t, ask("a"), node("a"), pod("web", on("a")))
	s.expect("cordon a draining")
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, version("2"), func(n *nodeOf) { n.CordonedBy = "argocd" }))
	s.expect("evict web")
}

// A cordon that stands on a node which was given back is not this drain's to take away, though no other is known to have set it.
func TestCordonOfANodeThatWasGivenBackStays(t *testing.T) {
	req := ask("a")
	req.UncordonOnFailure = true
	s := tell(t, req, node("a"), pod("slow", on("a"), endsAt(start.Add(time.Hour))))
	s.expect("cordon a draining")
	s.answer(answers.Accepted)
	for i, seen := range [][]func(*nodeOf){{ours}, {ours, schedulable}, {ours}} {
		s.then(time.Second, node("a", append(seen, version(strconv.Itoa(i+2)))...))
		s.expect()
	}
	s.led.End(drain.Interrupted)
	s.expect("unmark a")
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
			s.answer(answers.Accepted)
			s.then(time.Second, node("a", ours, version("2")), node("b", ours, version("2")))
			s.expect("evict web-a1", "evict web-b1")
			s.answer(answers.Accepted)
			s.then(time.Second, gone("web-a1", "web-b1"), pod("web-n1", on("a"), of("web"), createdAt(s.now)))
			s.decide()
			s.answer(answers.Accepted)
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
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, state("drained"), version("2")))
	s.expect()
	s.then(time.Second, node("a", version("3")), attached("v", "a"), node("b", ours, version("2")), func(c *clusterOf) { c.DeleteWorkload("uid-net") })
	s.expect("evict web")
	same(t, "pods that are left", 0, s.last.Nodes[0].Left)
}

// givenBack are the ways in which a node leaves this drain with its pods on it.
var givenBack = map[string]fact{
	"usher uncordon":           node("a", version("9")),
	"kubectl uncordon":         node("a", ours, schedulable, version("9")),
	"another node of its name": node("a", version("9"), func(n *nodeOf) { n.UID = "another" }),
}

// The request for a pod of a node that was given back is withdrawn while the drain goes on elsewhere, and not made anew. What others
// ask, and write in the drain's name meanwhile, is not the drain's to take back.
func TestRequestsOnANodeThatWasGivenBack(t *testing.T) {
	for how, back := range givenBack {
		t.Run(how, func(t *testing.T) {
			s := tell(t, ask("a", "b"), node("a"), node("b"), pod("db-0", on("a"), governed), pod("db-1", on("b"), governed),
				pod("forged", on("a")), askedBy("other", "db-0"), pod("slow", on("b"), endsAt(start.Add(time.Hour))))
			s.expect("cordon a draining", "cordon b draining")
			s.answer(answers.Accepted)
			s.then(time.Second, node("a", ours, version("2")), node("b", ours, version("2")))
			s.expect("ask db-0", "evict forged", "ask db-1")
			s.answer(answers.Accepted)
			s.then(time.Second, askedBy(me, "db-0", ownUID), askedBy(me, "db-1", ownUID))
			s.expect()
			s.then(time.Second, back, askedBy(me, "forged", ownUID))
			s.expect("withdraw db-0-me")
			s.answer(answers.Accepted)
			s.expect()
			s.then(time.Second, notAskedBy(me, "db-0"))
			s.expect()
			s.ends(drain.Running)
		})
	}
}

// ownUID distinguishes the requests of several drains for one pod.
func ownUID(r *snapshot.Request) { r.UID = types.UID("request-" + r.Name) }

// A request that a finalizer keeps asks for nothing any more, and one that may not be withdrawn holds no drain from its end.
func TestRequestsThatStand(t *testing.T) {
	cases := map[string]struct {
		then fact
		code answers.Code
		most int
		said int // notes at the end
	}{
		"a finalizer keeps it":    {askedBy(me, "db-0", func(r *snapshot.Request) { r.Withdrawn, r.Deleted = true, true }), answers.Accepted, 1, 0},
		"its end is not seen":     {askedBy(me, "db-0", withdrawn), answers.Accepted, 1, 1},
		"it may not be deleted":   {all(), answers.Forbidden, 1, 1},
		"the server is not there": {all(), answers.Unavailable, 7, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), node("a"), pod("db-0", on("a"), governed), askedBy(me, "db-0"))
			s.expect("cordon a draining")
			s.answer(answers.Accepted)
			s.then(time.Second, node("a", ours, version("2")))
			s.expect()
			s.then(time.Second, node("a", ours, schedulable, version("3")))
			tries := 0
			for s.decide().Outcome == drain.Running && tries < 100 {
				tries += len(s.last.Actions)
				s.answer(c.code)
				s.then(15*time.Second, c.then)
			}
			s.ends(drain.Blocked)
			if tries > c.most {
				t.Errorf("withdrawn %d times, want %d at most", tries, c.most)
			}
			s.led.End(drain.Blocked)
			for !s.decide().Settled && tries < 100 {
				tries += len(s.last.Actions)
				s.answer(c.code)
				s.then(15 * time.Second)
			}
			notes := slices.DeleteFunc(slices.Clone(s.last.Notes), func(note string) bool { return !strings.Contains(note, "the request") })
			same(t, "notes", c.said, len(notes))
		})
	}
}

// A pod whose deletion cost a surge has lowered stays on a node that was given back: its cost is restored before anything is scaled
// down, which would remove just this pod.
func TestMarkedPodsOnANodeThatWasGivenBack(t *testing.T) {
	for how, back := range givenBack {
		t.Run(how, func(t *testing.T) {
			s := marksLowered(t)
			s.answer(answers.Accepted)
			s.then(time.Second, pods("web", "a", 1, marked(me)), podVersion("web-a1", "2"), back)
			s.expect("restore-cost web-a1")
			s.expect()
			s.answer(answers.Accepted)
			s.then(time.Second, pods("web", "a", 1), podVersion("web-a1", "3"))
			s.expect("scale web to 1, no record")
		})
	}
}

// marksLowered is a drain in which the deletion cost of web's one pod on node a is being lowered; node b takes its time.
func marksLowered(t *testing.T) *story {
	t.Helper()
	s := tell(t, ask("a", "b"), node("a"), node("b"), node("c"), deployment("web", 1), pods("web", "a", 1), pod("slow", on("b"), endsAt(start.Add(time.Hour))))
	s.expect("cordon a draining", "cordon b draining")
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, version("2")), node("b", ours, version("2")))
	s.expect("scale web to 2, was 1")
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 2, surgedBy(me, 1, s.now), at("2")), pods("web", "c", 1))
	s.expect("lower-cost web-a1")
	return s
}

// The surge waits as well for a mark that may be written and is not seen yet.
func TestMarkThatIsSeenLate(t *testing.T) {
	ended := func(s *story) { s.led.End(drain.Interrupted) }
	opened := func(s *story) { s.then(0, node("a", ours, schedulable, version("9"))) }
	for name, stays := range map[string]func(*story){"the node was opened": opened, "the drain was interrupted": ended} {
		t.Run(name, func(t *testing.T) {
			s := marksLowered(t)
			stays(s)
			s.expect()
			s.answer(answers.Accepted)
			s.expect()
			s.then(time.Second, pods("web", "a", 1, marked(me)), podVersion("web-a1", "2"))
			s.expect("restore-cost web-a1")
		})
	}
}

// So does the minimum of an autoscaler whose Deployment has lost its record meanwhile.
func TestMinimumWaitsForAMarkThatIsSeenLate(t *testing.T) {
	s := tell(t, ask("a", "b"), node("a", ours), node("b", ours), node("c"), deployment("web", 2, surgedBy(me, 1, start)), autoscaler("web", 2, 5, raisedBy(me, 1)),
		pods("web", "a", 1), pods("web", "c", 1), pod("slow", on("b"), endsAt(start.Add(time.Hour))))
	s.expect("lower-cost web-a1")
	s.then(time.Second, deployment("web", 2, at("3")), node("a", ours, schedulable, version("9")))
	s.expect()
	s.answer(answers.Accepted)
	s.expect()
	s.then(time.Second, pods("web", "a", 1, marked(me)), podVersion("web-a1", "2"))
	s.expect("restore-cost web-a1")
	s.answer(answers.Accepted)
	s.then(time.Second, pods("web", "a", 1), podVersion("web-a1", "3"))
	s.expect("scale-min web to 1, no record")
}

// A surge that goes on for other nodes takes their pods, not those of the node that was given back.
func TestSurgeGoesOnWithoutANodeThatWasGivenBack(t *testing.T) {
	s := tell(t, ask("a", "b"), node("a", ours), node("b", ours), node("c"), deployment("web", 4, surgedBy(me, 2, start)),
		pods("web", "a", 1, marked(me)), pods("web", "b", 1), pods("web", "c", 2))
	s.expect("lower-cost web-b1")
	s.answer(answers.Accepted)
	s.then(time.Second, pods("web", "b", 1, marked(me)), podVersion("web-b1", "2"), node("a", ours, schedulable, version("2")))
	s.expect("restore-cost web-a1")
	s.answer(answers.Accepted)
	s.then(time.Second, pods("web", "a", 1), podVersion("web-a1", "2"))
	s.expect("scale web to 3, was 2")
}

// A cost that may not be restored holds the surge no longer, and is said at the end.
func TestMarkThatMayNotBeTakenBack(t *testing.T) {
	s := marksLowered(t)
	s.answer(answers.Accepted)
	s.then(time.Second, pods("web", "a", 1, marked(me)), podVersion("web-a1", "2"), node("a", ours, schedulable, version("9")))
	s.expect("restore-cost web-a1")
	s.answer(answers.Forbidden)
	s.expect("scale web to 1, no record")
	same(t, "in time", true, drain.InTime(s.view(), snapshot.Drainer{ID: me}, s.led.GivenBack(), s.last.Actions[0]))
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 1, at("3")))
	s.led.End(drain.Interrupted)
	s.decide()
	same(t, "notes", []string{"pod default/web-a1 still has the lowest deletion cost: server says Forbidden; usher drain --revert tries it again"}, s.last.Notes)
}

// No other step down of a surge takes marked pods that stay: not the end of one that leads nowhere, that another client has scaled, or
// that a killed drain left, nor where replacements are given up that are Ready and not available yet, which goes by the marks.
func TestMarksGoBeforeEverySurgeThatEnds(t *testing.T) {
	long := start.Add(-time.Hour)
	opened := all(node("a", ours, schedulable), pods("web", "a", 1, marked(me)))
	cases := map[string]struct {
		req   drain.Request
		facts fact
		then  []string
	}{
		"its replacements start on draining nodes": {
			ask("a", "b"), all(opened, deployment("web", 3, surgedBy(me, 2, start)), pod("web-back", on("b"), of("web"), createdAt(start))),
			[]string{"scale web to 2, no record"},
		},
		"a killed drain left it": {
			ask("b"), all(deployment("web", 3, surgedBy("other", 2, long)), pods("web", "a", 1, marked("other")), pods("web", "c", 1)),
			[]string{"scale web to 2, no record"},
		},
		"a replacement is given up": {
			ask("a", "b"), all(opened, deployment("web", 4, surgedBy(me, 2, long), minReady(time.Minute)), pods("web", "c", 2),
				pod("web-c2", on("c"), of("web"), readySince(start))),
			[]string{"scale web to 3, was 2"},
		},
		"another client has scaled": {
			ask("a", "b"), all(opened, deployment("web", 4, surgedBy(me, 2, start), ownerWants(5)), autoscaler("web", 4, 5, raisedBy(me, 2))),
			[]string{"scale-min web to 2, no record", "scale web to 5, no record"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, c.req, node("b", ours), node("a"), node("c"), pods("web", "b", 1), c.facts)
			s.expect("restore-cost web-a1")
			s.answer(answers.Accepted)
			s.then(time.Second, pods("web", "a", 1), podVersion("web-a1", "2"))
			s.expect(c.then...)
		})
	}
}

// What came back to a node after its cordon stays as well where another drain has had the node meanwhile: evicted again, it would
// only come back again.
func TestWhatCameBackStaysAfterAnotherDrain(t *testing.T) {
	s := tell(t, never("a", "b"), node("a"), node("b"), pod("slow", on("b"), endsAt(start.Add(time.Hour))))
	s.expect("cordon a draining", "cordon b draining")
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, state("drained"), version("2")), node("b", ours, version("2")))
	s.expect()
	s.then(time.Second, pod("back", on("a"), toleratesAll, createdAt(s.now)))
	s.expect()
	s.then(time.Second, node("a", drainedBy("other", s.now), version("3")))
	s.expect()
	s.then(time.Second, node("a", drainedBy("other", s.now), state("interrupted"), version("4")))
	s.expect("cordon a draining")
	record := *s.last.Actions[0].Record
	same(t, "the drain has the node since", start, record.Since)
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, version("5"), func(n *nodeOf) { n.Drain = &record }))
	s.expect("mark a drained")
}
