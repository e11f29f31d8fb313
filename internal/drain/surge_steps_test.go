package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

func TestSurgeStepByStep(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo)
	s.expect("scale web to 2, was 1")
	same(t, "record", &snapshot.SurgeRecord{Drainer: snapshot.Drainer{ID: me, By: "me@host", Beat: start}, Was: 1, To: 2, Since: start, Step: start}, s.last.Actions[0].Surge)
	s.answer(answers.Accepted)
	s.expect() // accepted is not observed

	s.then(time.Second, deployment("web", 2, surgedBy(me, 1, start), at("2")))
	s.expect() // no replacement yet
	same(t, "message", "0 of 1 replacements of web are ready", s.status("web-a1").Blockers[0].Message)

	s.then(time.Second, pods("web", "b", 1, unready, func(p *snapshot.Pod) { p.NotReadyWhy = "pulling" }))
	s.expect()
	same(t, "message", "0 of 1 replacements of web are ready; web-b1: pulling", s.status("web-a1").Blockers[0].Message)
	same(t, "state", drain.Surging, s.status("web-a1").State)

	s.then(time.Second, pods("web", "b", 1))
	s.expect("lower-cost web-a1")
	s.answer(answers.Accepted)
	s.expect() // a scaling down before the cost is seen may remove another pod
	s.then(time.Second, pods("web", "a", 1, marked(me)))
	s.expect("scale web to 1, no record")
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 1, at("3")), pods("web", "a", 1, marked(me), endsAt(start.Add(time.Minute))))
	s.expect()
	s.then(time.Second, gone("web-a1"))
	s.expect("mark a drained")
	same(t, "states", []string{"web-a1 replaced"}, s.states())
}

func TestSurgeWaitsForMinReadySeconds(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, deployment("web", 2, surgedBy(me, 1, start), minReady(20*time.Second)),
		pods("web", "b", 1, readySince(start)))
	s.then(5 * time.Second)
	s.expect()
	same(t, "next is the beat", start.Add(15*time.Second), s.last.Next)
	s.then(14*time.Second, node("a", drainedBy(me, start.Add(19*time.Second))))
	s.expect()
	same(t, "next", start.Add(20*time.Second), s.last.Next)
	s.then(time.Second)
	s.expect("lower-cost web-a1")
}

// Where some replacements do not get ready the surge goes on with those that do, but
// never takes more than there are spare.
func TestSurgeWithSlowReplacements(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), deployment("web", 4, surgedBy(me, 2, start)),
		pods("web", "a", 2), pods("web", "b", 1), pod("web-c1", on("b"), of("web"), unready))
	s.then(44*time.Second, node("a", drainedBy(me, start.Add(44*time.Second))))
	s.expect()
	s.holds("web-a1: SurgeStarting", "web-a2: SurgeStarting")
	same(t, "next", start.Add(45*time.Second), s.last.Next)
	s.then(time.Second)
	s.expect("scale web to 3, was 2")
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 3, surgedBy(me, 2, s.now), at("2")), gone("web-c1"))
	s.expect("lower-cost web-a1", "lower-cost web-a2")
	s.answer(answers.Accepted)
	s.then(time.Second, pods("web", "a", 2, marked(me)))
	s.expect("scale web to 2, no record")
}

// Without a single spare pod it waits, but not for ever: a replacement that fits
// nowhere ends the drain and is named.
func TestSurgeWithoutReadyReplacement(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, deployment("web", 2, surgedBy(me, 1, start)),
		pod("web-b1", of("web"), unready, func(p *snapshot.Pod) { p.Unschedulable, p.NotReadyWhy = true, "0/2 nodes are available" }))
	s.then(5*time.Minute-time.Second, node("a", drainedBy(me, start.Add(5*time.Minute))))
	s.expect()
	s.ends(drain.Running)
	s.holds("web-a1: ReplacementPending")
	same(t, "message", "0 of 1 replacements of web are ready; web-b1: 0/2 nodes are available", s.status("web-a1").Blockers[0].Message)
	same(t, "next", start.Add(5*time.Minute), s.last.Next)
	s.then(time.Second, node("a", drainedBy(me, start.Add(5*time.Minute)), state("blocked")))
	s.expect()
	s.ends(drain.Blocked)
	s.holds("web-a1: ReplacementPending!")
}

// Without a budget that asks for it, a surge that fits nowhere is given up, and the pods are evicted. What the operator has
// asked for is not given up, and neither is one whose replacements have found a node.
func TestSurgeThatFitsNowhereIsGivenUp(t *testing.T) {
	nowhere := func(p *snapshot.Pod) { p.Unschedulable, p.NotReadyWhy = true, "0/2 nodes are available" }
	cases := map[string]struct {
		mode  drain.SurgeMode
		facts fact
		want  []string
	}{
		"auto":                               {drain.SurgeAuto, all(), []string{"scale web to 2, no record"}},
		"always":                             {drain.SurgeAlways, all(), []string{"mark a blocked"}},
		"a budget that lets one go":          {drain.SurgeAuto, budget("web", 2, 1, 4, minAvailable("1")), []string{"scale web to 2, no record"}},
		"a budget that asks for a surge":     {drain.SurgeAuto, budget("web", 2, 2, 4, minAvailable("2")), []string{"mark a blocked"}},
		"two budgets":                        {drain.SurgeAuto, all(budget("web", 2, 1, 4), budget("web", 2, 1, 4, named("b"))), []string{"mark a blocked"}},
		"one of them has a node":             {drain.SurgeAuto, pod("web-b2", of("web"), on("b"), unready), []string{"mark a blocked"}},
		"the autoscaler's minimum goes back": {drain.SurgeAuto, autoscaler("web", 4, 5, raisedBy(me, 2)), []string{"scale-min web to 2, no record"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := ask("a")
			req.Surge = c.mode
			s := tell(t, req, node("a", ours), node("b"), deployment("web", 4, surgedBy(me, 2, start)), pods("web", "a", 2),
				pod("web-b1", of("web"), unready, nowhere), pod("web-b2", of("web"), unready, nowhere), c.facts)
			s.then(5*time.Minute-time.Second, node("a", drainedBy(me, start.Add(5*time.Minute))))
			s.expect()
			s.then(time.Second)
			s.expect(c.want...)
		})
	}
}

// A drain without a surge is no remedy where the budget never allows an eviction without one: it would only ask for a surge.
func TestSurgeThatTheBudgetNeedsIsNotAdvisedAgainst(t *testing.T) {
	nowhere := func(p *snapshot.Pod) {
		p.Unschedulable, p.NotReadyWhy = true, "0/2 nodes are available: 2 Insufficient cpu."
	}
	surged := deployment("web", 2, surgedBy(me, 1, start))
	dead := budget("web", 1, 1, 1, minAvailable("1"))
	edit := "or kubectl edit pdb -n default web, which never allows an eviction"
	cases := map[string]struct {
		facts fact
		held  string
		way   string
	}{
		"no budget":           {all(surged, pod("web-b1", of("web"), on("b"), unready)), "web-a1: SurgeStarting", "wait, or --surge=never to go without"},
		"one that may allow":  {all(deployment("web", 4, surgedBy(me, 2, start)), pods("web", "a", 2), budget("web", 2, 1, 2, minAvailable("1")), pod("web-b1", of("web"), on("b"), unready)), "web-a1: SurgeStarting", "wait, or --surge=never to go without"},
		"one that never does": {all(surged, dead, pod("web-b1", of("web"), on("b"), unready)), "web-a1: SurgeStarting", "wait, " + edit + " without replacements"},
		"… whatever the pods": {all(surged, budget("web", 1, 1, 1, maxUnavailable("0")), pod("web-b1", of("web"), on("b"), unready)), "web-a1: SurgeStarting", "wait, " + edit},
		"… and no room":       {all(surged, dead, pod("web-b1", of("web"), unready, nowhere)), "web-a1: ReplacementPending", "make room for it on another node, " + edit + " without replacements"},
		"… and all nodes are cordoned": {
			all(surged, dead, pod("web-b1", of("web"), unready, func(p *snapshot.Pod) {
				p.Unschedulable, p.NotReadyWhy = true, "0/2 nodes are available: 2 node(s) were unschedulable."
			}), node("b", cordoned)), "web-a1: ReplacementPending",
			"add a node, or uncordon one: all are cordoned, " + edit + " without replacements",
		},
		"… and a rollout": {
			all(deployment("web", 1, rolling), dead), "web-a1: RolloutUnderway",
			"wait, while nothing moves no longer than until 12:05:00; kubectl rollout status -n default deployment/web; " + edit,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), node("a", ours), node("b"), pods("web", "a", 1), c.facts)
			s.decide()
			b := s.status("web-a1").Blockers[0]
			same(t, "held", c.held, reasonsOf([]drain.Blocker{b})[0])
			same(t, "remedy", c.way, b.Remedy)
		})
	}
}

// A step from the future, which every client that may edit the Deployment may write, does not make the drain wait until then.
func TestSurgeStepFromTheFuture(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, deployment("web", 2, surgedBy(me, 1, start.Add(70*365*24*time.Hour))), pod("web-b1", of("web"), unready))
	s.expect("mark a blocked")
	s.holds("web-a1: SurgeStarting!")
}

// The controller's own pods count: while it removes some, nothing more is asked for.
func TestSurgeWaitsForTheController(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), deployment("web", 3, surgedBy(me, 2, start)), pods("web", "a", 2, marked(me)), pods("web", "b", 2))
	s.expect()
	same(t, "message", "the controller of web is removing pods", s.status("web-a1").Blockers[0].Message)
	same(t, "next is the beat", start.Add(15*time.Second), s.last.Next)
	s.then(5*time.Minute-time.Second, node("a", drainedBy(me, start.Add(5*time.Minute))))
	s.expect()
	s.ends(drain.Running)
	same(t, "next", start.Add(5*time.Minute), s.last.Next)
	s.then(time.Second, node("a", drainedBy(me, start.Add(5*time.Minute)), state("blocked")))
	s.expect()
	s.ends(drain.Blocked)
	s.holds("web-a1: SurgeStarting!", "web-a2: SurgeStarting!")
	same(t, "message", "4 pods run and web wants 3: its controller has removed none in 5m", s.status("web-a1").Blockers[0].Message)
}

func TestAutoscaledSurge(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, autoscaler("web", 1, 5))
	s.expect("scale-min web to 2, was 1")
	s.answer(answers.Accepted)
	s.expect()
	s.then(time.Second, autoscaler("web", 2, 5, raisedBy(me, 1), scalerVersion("2")))
	s.expect("scale web to 2, was 1")
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 2, surgedBy(me, 1, s.now), at("2")), pods("web", "b", 1))
	s.expect("lower-cost web-a1")
	s.answer(answers.Accepted)
	s.then(time.Second, pods("web", "a", 1, marked(me)))
	s.expect("scale-min web to 1, no record") // first, or it would start the replacement again
	s.answer(answers.Accepted)
	s.expect()
	s.then(time.Second, autoscaler("web", 1, 5, scalerVersion("3")))
	s.expect("scale web to 1, no record")
}

// Where a pod's cost may not be changed, its eviction asks the budget, which the
// replacement has given room.
func TestSurgeByEviction(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, deployment("web", 2, surgedBy(me, 1, start)), pods("web", "b", 1), budget("web", 2, 1, 2, minAvailable("1")))
	s.expect("lower-cost web-a1")
	s.answer(answers.Forbidden)
	s.expect("evict web-a1")
	s.answer(answers.Accepted)
	s.then(time.Second, pods("web", "a", 1, endsAt(start.Add(time.Minute))))
	s.expect("scale web to 1, no record")
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 1, at("2")), gone("web-a1"))
	s.expect("mark a drained")
}

// A grace that the operator sets is only had by evicting.
func TestSurgeWithAGrace(t *testing.T) {
	req := ask("a")
	five := 5 * time.Second
	req.Grace = &five
	s := tell(t, req, node("a", ours), solo, deployment("web", 2, surgedBy(me, 1, start)), pods("web", "b", 1), budget("web", 2, 1, 2, minAvailable("1")))
	s.expect("evict web-a1 in 5s")
}

// Evictions of a surge never take more than the spare pods.
func TestSurgeByEvictionKeepsTheWanted(t *testing.T) {
	req := ask("a")
	five := 5 * time.Second
	req.Grace = &five
	s := tell(t, req, node("a", ours), deployment("web", 4, surgedBy(me, 2, start)), pods("web", "a", 2), pods("web", "b", 1), pods("web", "c", 1, unready))
	s.then(time.Minute, node("a", drainedBy(me, start.Add(time.Minute))))
	s.expect("evict web-a1 in 5s")
	s.holds("web-a2: SurgeStarting")
}

// The replacement is seen ready before the budget's status counts it: that is no dead
// budget.
func TestBudgetsStatusLagsBehindTheReplacement(t *testing.T) {
	for form, b := range map[string]func(*snapshot.Budget){"a number": minAvailable("1"), "a percentage": minAvailable("50%")} {
		s := tell(t, ask("a"), node("a", ours), solo, deployment("web", 2, surgedBy(me, 1, start)), pods("web", "b", 1), budget("web", 1, 1, 1, b))
		s.expect("lower-cost web-a1")
		s.answer(answers.Forbidden)
		s.expect()
		s.holds("web-a1: BudgetNeverAllows", "web-a1: SurgeStarting")
		s.ends(drain.Running)
		s.then(time.Second, budget("web", 2, 1, 2, b))
		s.decide()
		same(t, form, []string{"evict web-a1"}, deeds(s.last))
	}
}

// A budget that no number of replicas satisfies leaves the scaling down as the only
// way, whatever grace was asked for.
func TestDeadBudgetIsNotEvictedFrom(t *testing.T) {
	req := ask("a")
	five := 5 * time.Second
	req.Grace = &five
	s := tell(t, req, node("a", ours), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "a", 1), pods("web", "b", 1), budget("web", 2, 2, 2, maxUnavailable("0")))
	s.expect("lower-cost web-a1")
}

func TestOwnerScalesDuringTheSurge(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, deployment("web", 2, surgedBy(me, 1, start)))
	s.expect()
	s.then(time.Second, func(c *clusterOf) {
		w := *c.Workload("uid-web")
		w.Replicas, w.ResourceVersion = 5, "2"
		c.SetWorkload(&w)
	})
	s.expect("scale web to 5, no record") // the number is the owner's, only the record goes
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 5, at("3")), budget("web", 1, 1, 5, minAvailable("1")))
	s.decide()
	for _, deed := range deeds(s.last) {
		if deed != "mark a blocked" {
			t.Errorf("%q after the surge was given up", deed)
		}
	}
}

func TestOwnerScalesAnAutoscaledDeployment(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, autoscaler("web", 2, 5, raisedBy(me, 1)), deployment("web", 2, surgedBy(me, 1, start)))
	s.then(time.Second, func(c *clusterOf) {
		w := *c.Workload("uid-web")
		w.Replicas = 4
		c.SetWorkload(&w)
	})
	s.expect("scale-min web to 1, no record", "scale web to 4, no record")
}

// An operator that owns the autoscaler sets it back each time it is raised: once is
// enough.
func TestAnotherClientTakesTheMinimumBack(t *testing.T) {
	cases := map[string]struct {
		back fact
		want []string
	}{
		"record and all":  {autoscaler("web", 1, 5, scalerVersion("3")), []string{"evict web-a1"}},
		"the number only": {autoscaler("web", 2, 5, raisedBy(me, 1), lowestNow(1), scalerVersion("3")), []string{"scale-min web to 1, no record"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 1), pods("web", "a", 1), autoscaler("web", 1, 5))
			s.expect("scale-min web to 2, was 1")
			s.answer(answers.Accepted)
			s.then(time.Second, c.back)
			s.expect(c.want...)
			s.answer(answers.Accepted)
			s.then(time.Second, autoscaler("web", 1, 5, scalerVersion("4")))
			for _, a := range s.decide().Actions {
				if a.Kind == drain.ScaleMin || a.Kind == drain.Scale {
					t.Errorf("%s %d once more", a.Kind, a.Replicas)
				}
			}
		})
	}
}

// Without its record a Deployment counts as the owner's as it is; to surge it again
// would make it larger each time.
func TestAnotherClientRemovesTheRecord(t *testing.T) {
	req := ask("a")
	req.Surge = drain.SurgeAlways
	s := tell(t, req, node("a", ours), node("b"), deployment("web", 1), pods("web", "a", 1))
	s.expect("scale web to 2, was 1")
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 2, at("3")), pods("web", "b", 1))
	s.expect("evict web-a1")
}

// A surge whose pods have left, or may not leave any more, is scaled back.
func TestSurgeEnds(t *testing.T) {
	cases := map[string]fact{
		"the pods left":                  gone("web-a1"),
		"the pods are leaving":           pods("web", "a", 1, endsAt(start.Add(time.Minute))),
		"the node was uncordoned":        node("a", ours, schedulable),
		"another drain took it":          node("a", drainedBy("other", start)),
		"the node is gone":               func(c *clusterOf) { c.DeleteNode("a") },
		"the pod is not to leave at all": pods("web", "a", 1, mirror),
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), node("a", ours), solo, deployment("web", 2, surgedBy(me, 1, start)), pods("web", "b", 1), c)
			s.decide()
			if got := deeds(s.last); len(got) == 0 || got[0] != "scale web to 1, no record" {
				t.Errorf("actions %v, want the scaling back first%s", got, s.where())
			}
			s.ends(drain.Running)
		})
	}
}

// A scaling back that is refused for good ends the drain all the same; what is left
// is said when it tidies up.
func TestSurgeThatMayNotBeScaledBack(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours, state("drained")), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "b", 2))
	s.expect("scale web to 1, no record")
	s.answer(answers.Forbidden)
	s.expect()
	s.ends(drain.Drained)
	s.led.End(drain.Drained)
	s.expect()
	same(t, "settled", true, s.last.Settled)
	same(t, "notes", []string{"default/web is still scaled to 2 (it was 1): server says Forbidden; usher drain --revert tries it again"}, s.last.Notes)
}

// Where the replacements are there and only the scaling down is refused, the pods are
// evicted instead.
func TestScalingDownRefusedGoesOnByEviction(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "a", 1, marked(me)), pods("web", "b", 1), budget("web", 2, 1, 2, minAvailable("1")))
	s.expect("scale web to 1, no record")
	s.answer(answers.Denied)
	s.expect("evict web-a1")
}

func TestMinimumThatMayNotBeGivenBackGoesOnByEviction(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "a", 1, marked(me)), pods("web", "b", 1),
		autoscaler("web", 2, 5, raisedBy(me, 1)), budget("web", 2, 1, 2, minAvailable("1")))
	s.expect("scale-min web to 1, no record")
	s.answer(answers.Forbidden)
	s.expect("evict web-a1")
}

// Where an autoscaler's maximum allowed fewer replacements than pods are to leave, only
// as many leave as are spare; the others are surged after them.
func TestSurgeTakesNoMoreThanIsSpare(t *testing.T) {
	req := ask("a")
	req.Surge = drain.SurgeAlways
	s := tell(t, req, node("a", ours), deployment("web", 4, surgedBy(me, 3, start)), pods("web", "a", 3, marked(me)), pods("web", "b", 1))
	s.expect("scale web to 3, no record")
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 3, at("2")), gone("web-a1"))
	s.expect("scale web to 5, was 3")
}

// A scaling down that waits for its turn to be sent would remove pods of a node that was opened meanwhile, and they stay: that of a
// surge that goes on or is given up, and that of an autoscaler's minimum, after which the autoscaler scales down.
func TestScalingDownOnceANodeWasOpened(t *testing.T) {
	long := start.Add(-time.Hour)
	raised := autoscaler("web", 4, 5, raisedBy(me, 2))
	ready := all(deployment("web", 4, surgedBy(me, 2, long)), pods("web", "c", 2))
	astray := pod("web-back", on("b"), of("web"), createdAt(start))
	slow := pod("web-c2", on("c"), of("web"), unready)
	surges := map[string]struct {
		facts fact
		want  string
	}{
		"replacements are ready":          {ready, "scale web to 2, no record"},
		"… under an autoscaler":           {all(ready, raised), "scale-min web to 2, no record"},
		"one starts on a draining node":   {all(ready, gone("web-c2"), astray), "scale web to 2, no record"},
		"… under an autoscaler as well":   {all(ready, gone("web-c2"), astray, raised), "scale-min web to 2, no record"},
		"one does not get ready":          {all(ready, slow), "scale web to 3, was 2"},
		"… nor with an autoscaler":        {all(ready, slow, raised), "scale-min web to 2, no record"},
		"another client has scaled":       {all(ready, deployment("web", 4, surgedBy(me, 2, long), ownerWants(5)), raised), "scale-min web to 2, no record"},
		"only the minimum is left raised": {all(ready, deployment("web", 4), raised), "scale-min web to 2, no record"},
	}
	cases := map[string]struct {
		seen fact
		want bool
	}{
		"both are as they were": {all(), true},
		"one was opened":        {node("b", ours, schedulable), false},
		"one was given back":    {node("b"), false},
	}
	for surge, from := range surges {
		s := tell(t, ask("a", "b"), node("a", ours), node("b", ours), node("c"), pods("web", "a", 1, marked(me)), pods("web", "b", 1, marked(me)), from.facts)
		s.decide()
		same(t, surge, from.want, deeds(s.last)[0])
		for name, c := range cases {
			t.Run(surge+", "+name, func(t *testing.T) {
				view := snapshot.View{Now: start, Cluster: cluster(node("a", ours), node("b", ours), c.seen)}
				same(t, "in time", c.want, drain.InTime(view, snapshot.Drainer{ID: me}, nil, s.last.Actions[0]))
			})
		}
	}
}

// It rests as well on the nodes of pods whose deletion cost may be lowered without that being seen.
func TestScalingDownWhileACostIsBeingLowered(t *testing.T) {
	s := tell(t, ask("a", "b"), node("a", ours), node("b", ours), node("c"), deployment("web", 4, surgedBy(me, 2, start)),
		pods("web", "a", 1), pods("web", "b", 1), pods("web", "c", 2))
	s.expect("lower-cost web-a1", "lower-cost web-b1")
	s.then(time.Second, gone("web-c2"), pod("web-back", on("b"), of("web"), createdAt(start)))
	s.expect("scale web to 2, no record")
	same(t, "in time", true, drain.InTime(s.view(), snapshot.Drainer{ID: me}, nil, s.last.Actions[0]))
	s.then(0, node("a", ours, schedulable))
	same(t, "in time, the node is open", false, drain.InTime(s.view(), snapshot.Drainer{ID: me}, nil, s.last.Actions[0]))
}

// A quota that refuses the replacements is named, and how to go on.
func TestSurgeThatAQuotaRefuses(t *testing.T) {
	refused := func(w *snapshot.Workload) {
		w.Replicas, w.PodsRefused = 2, `pods "web-1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`
	}
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 2, surgedBy(me, 1, start), refused), pods("web", "a", 1))
	s.decide()
	b := s.status("web-a1").Blockers[0]
	same(t, "message", `0 of 1 replacements of web are ready; its pods may not be created: pods "web-1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`, b.Message)
	same(t, "remedy", "make room for them: kubectl describe deployment -n default web, and kubectl describe quota -n default; or --surge=never to go without", b.Remedy)
}
