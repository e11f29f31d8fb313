package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// TestLaterWavesWaitForProgress is about one pod of an early wave, whether it moves, and a pod of a later wave.
func TestLaterWavesWaitForProgress(t *testing.T) {
	soon, past := endsAt(start.Add(20*time.Second)), endsAt(start.Add(-5*time.Second))
	exhausted := all(deployment("web", 3), budget("web", 2, 2, 3, maxUnavailable("1")), pod("early", on("a"), of("web")))
	cases := map[string]struct {
		early fact
		waits bool
	}{
		"is shutting down":                     {pod("early", on("a"), soon), true},
		"is being cleaned up":                  {pod("early", on("a"), past), true},
		"is overdue":                           {pod("early", on("a"), endsAt(start.Add(-2*time.Minute))), false},
		"is held by a finalizer":               {pod("early", on("a"), past, finalizer("x/hold")), false},
		"has ended, held by a finalizer":       {pod("early", on("a"), soon, finalizer("x/hold"), phase("Failed")), false},
		"has a finalizer and is shutting down": {pod("early", on("a"), soon, finalizer("x/hold")), true},
		"is on a node that does not answer":    {all(node("a", ours, silent), pod("early", on("a"), soon)), false},
		"a budget is exhausted":                {all(exhausted, pod("new", on("b"), of("web"), unready)), false},
		"a budget allows it":                   {all(exhausted, pods("web", "b", 2), budget("web", 3, 2, 3, maxUnavailable("1"))), true},
		"a surge is under way": {
			all(solo, deployment("web", 2, surgedBy(me, 1, start.Add(-time.Minute))), pod("web-b1", of("web"), unready)), true,
		},
		"a surge is under way, and its budget knows that": {
			all(solo, deployment("web", 2, surgedBy(me, 1, start.Add(-time.Minute))), pod("web-b1", of("web"), unready), budget("web", 1, 1, 2, minAvailable("1"))), true,
		},
		"a surge leads nowhere": {
			all(solo, deployment("web", 2, surgedBy(me, 1, start.Add(-time.Hour))), pod("web-b1", of("web"), unready)), false,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), node("a", ours), node("b"), c.early, pod("later", on("a"), priority(5)))
			s.decide()
			same(t, "waits", c.waits, s.status("later").State == drain.Waiting)
		})
	}
}

// What was refused for another reason than a budget is waited for by none.
func TestDeniedPodHoldsNoLaterWave(t *testing.T) {
	for _, code := range []answers.Code{answers.Denied, answers.NamespaceTerminating, answers.Forbidden, answers.Rejected} {
		t.Run(string(code), func(t *testing.T) {
			s := tell(t, ask("a"), node("a", ours), pod("early", on("a")), pod("later", on("a"), priority(5)))
			s.expect("evict early")
			s.answer(code)
			s.then(time.Second)
			s.expect("evict later")
		})
	}
}

// A wave waits for a bounded time, whatever goes on: a grace of an hour, say.
func TestWavesWaitForABoundedTime(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("early", on("a"), endsAt(start.Add(time.Hour))),
		pod("later", on("a"), priority(5)), pod("last", on("a"), priority(critical)))
	s.expect()
	late := start.Add(5*time.Minute - time.Second)
	s.then(late.Sub(start), node("a", drainedBy(me, late)))
	s.expect()
	same(t, "next", start.Add(5*time.Minute), s.last.Next)
	s.then(time.Second)
	s.expect("evict later", "evict last")
}

// An order sorts the pods of its own namespace. No other namespace's pod waits for one because of it.
func TestOrderOfATenantHoldsNoOther(t *testing.T) {
	ends := endsAt(start.Add(20 * time.Second))
	s := tell(t, ask("a"), node("a", ours),
		pod("slow", on("a"), in("tenant"), order(-1_000_000), ends),
		pod("next", on("a"), in("tenant")),
		pod("other", on("a")),
		pod("vital", on("a"), priority(critical)))
	s.expect("evict other")
	s.holds("slow: Terminating", "next: EarlierWave", "vital: EarlierWave")
	same(t, "message", "waits for slow of earlier waves", s.status("next").Blockers[0].Message)
	same(t, "message of another namespace", "waits for tenant/slow and 2 more pods of earlier waves", s.status("vital").Blockers[0].Message)
}

// Within a namespace the owner's order is kept while a budget holds a pod, for a bounded time.
func TestOrderWaitsForBudgets(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), deployment("app", 3), budget("app", 2, 2, 3, maxUnavailable("1")),
		pod("app", on("a"), of("app")), pod("db", on("a"), order(1)))
	s.expect()
	s.holds("app: BudgetExhausted", "db: EarlierWave")
	s.then(5*time.Minute, node("a", drainedBy(me, start.Add(5*time.Minute))))
	s.expect("evict db")
}

// What is ordered behind a pod of a higher priority waits as that one does: neither waits for the other.
func TestOrderAgainstPriority(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours),
		pod("db", on("a"), in("tenant"), priority(100), order(1)),
		pod("app", on("a"), in("tenant"), order(2)),
		pod("batch", on("a")))
	s.expect("evict batch")
	s.answer(answers.Accepted)
	s.then(time.Second, gone("batch"))
	s.expect("evict db")
	s.answer(answers.Accepted)
	s.then(time.Second, gone("db"))
	s.expect("evict app")
}

// A node on which only held pods are left does not keep the others from their turn for ever; one that is being drained does.
func TestStuckNodeGivesItsPlaceUp(t *testing.T) {
	cases := map[string]struct {
		left fact
		want []string
	}{
		"a finalizer": {pod("held", on("a"), endsAt(start.Add(-time.Hour)), finalizer("x/hold")), []string{"mark a blocked", "evict pb"}},
		"a finalizer of what may serve what is left": {
			all(daemonSet("net"), daemonSet("csi"), pod("held", on("a"), ofDaemon("net"), endsAt(start.Add(-time.Hour)), finalizer("x/hold")), pod("csi", on("a"), ofDaemon("csi"), priority(1))),
			[]string{"mark a blocked", "evict pb"},
		},
		"a grace of a day":  {pod("held", on("a"), endsAt(start.Add(24*time.Hour)), grace(24*time.Hour)), nil},
		"a budget for now":  {all(deployment("web", 3), budget("web", 2, 2, 3, maxUnavailable("1")), pod("held", on("a"), of("web"))), nil},
		"a surge that ends": {all(solo, pods("web", "a", 1), deployment("web", 2, surgedBy(me, 1, start)), pod("web-b1", of("web"), unready)), []string{"mark a blocked", "evict pb"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := ask("a", "b")
			req.MaxParallel, req.DaemonSets = 1, drain.DaemonSetsEvict
			s := tell(t, req, node("a", ours), node("b", ours), c.left, pod("pb", on("b")))
			s.expect()
			later := drainedBy(me, start.Add(5*time.Minute))
			s.then(5*time.Minute, node("a", later), node("b", later))
			s.expect(c.want...)
		})
	}
}

// A pod in earnest need of what serves its node: its containers run, whatever its finalizers and its grace.
func TestDaemonSetPodsWaitForRunningContainers(t *testing.T) {
	ended := endsAt(start.Add(-time.Second))
	for _, c := range []struct {
		pod   fact
		waits bool
	}{
		{pod("job", on("a"), ofJob("job"), finalizer("batch.kubernetes.io/job-tracking"), ended), true},
		{pod("job", on("a"), ofJob("job"), finalizer("batch.kubernetes.io/job-tracking"), ended, phase("Failed")), false},
	} {
		s := tell(t, asked(evictDaemons), node("a", ours), daemonSet("csi"), pod("csi", on("a"), ofDaemon("csi")), c.pod)
		s.decide()
		same(t, "waits", c.waits, s.status("csi").State == drain.Waiting)
	}
}

// A surge is not waited for where the Deployment has more pods than wanted for another reason.
func TestStuckRolloutAfterAScaling(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "b", 1), pods("web", "a", 1, marked(me)))
	s.expect("scale web to 1, no record")
	s.answer(answers.Accepted)
	stuck := func(w *snapshot.Workload) { w.Settled, w.RolloutStuck = false, "its rollout is paused" }
	s.then(time.Minute, node("a", drainedBy(me, start.Add(time.Minute))), deployment("web", 1, stuck, at("2")))
	s.expect("evict web-a1")
}

// Giving a surge up may be refused: then its pods are stuck, and the drain ends.
func TestSurgeThatMayNotBeGivenUp(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, deployment("web", 2, surgedBy(me, 1, start), func(w *snapshot.Workload) { w.Replicas = 3 }), pods("web", "b", 1))
	s.expect("scale web to 3, no record")
	s.answer(answers.Denied)
	s.then(time.Second)
	s.expect("mark a blocked")
	s.holds("web-a1: SurgeStarting!")
}

// What Usher cannot free itself is waited for as long as anything moves, and five minutes more. Then the drain ends.
func TestHeldPodsAreWaitedForABoundedTime(t *testing.T) {
	cases := map[string]struct {
		facts  fact
		reason string
	}{
		"a finalizer":                    {pod("p", on("a"), finalizer("x/hold"), endsAt(start.Add(-time.Second))), "HeldByFinalizers"},
		"a node that does not answer":    {all(node("a", silent, ours), pod("p", on("a"), endsAt(start.Add(time.Hour)), grace(time.Hour))), "NodeUnreachable"},
		"a kubelet that does not end it": {pod("p", on("a"), endsAt(start.Add(-2*time.Minute))), "OverdueOnNode"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), node("a", ours), c.facts, pod("other", on("a"), priority(1)))
			beat := func(c *clusterOf) {
				n, record := *c.Node("a"), *c.Node("a").Drain
				record.Beat, n.Drain = s.now, &record
				c.SetNode(&n)
			}
			s.decide()
			s.answer(answers.Accepted)
			s.then(3*time.Minute, gone("other"), beat)
			s.decide()
			s.then(5*time.Minute-time.Second, beat)
			s.decide()
			s.holds("p: " + c.reason)
			s.ends(drain.Running)
			s.then(time.Second)
			s.decide()
			s.holds("p: " + c.reason + "!")
		})
	}
}

// What serves a node goes last; where only pods stay that never leave, it stays with them, and the drain ends.
func TestDaemonSetPodsStayWithWhatNeverLeaves(t *testing.T) {
	s := tell(t, asked(evictDaemons), node("a", ours, state("blocked")), daemonSet("d"), pod("net", on("a"), ofDaemon("d")),
		pod("db-0", on("a"), ofSet("db")), statefulSet("db", 1), budget("db", 1, 1, 1, minAvailable("1")))
	s.expect()
	s.holds("db-0: BudgetNeverAllows!", "net: EarlierWave!")
	same(t, "message", "waits for db-0 of earlier waves, which it may serve", s.status("net").Blockers[0].Message)
	s.ends(drain.Blocked)
}

// TestPodsThatComeBack is about a pod of an owner of which one has left the node, and when it was started.
func TestPodsThatComeBack(t *testing.T) {
	after, before := createdAt(start.Add(2*time.Second)), createdAt(start.Add(-time.Hour))
	cases := map[string]struct {
		pod  func(*snapshot.Pod)
		note string // "": it leaves
	}{
		"tolerates the cordon":             {both(after, toleratesAll), "it was started after the cordon, which it tolerates"},
		"does not, but has ended":          {both(after, phase("Failed")), "it was started after the cordon, and has ended"},
		"is older than the cordon":         {both(before, toleratesAll), ""},
		"in the same second as the cordon": {both(createdAt(start), toleratesAll), "it was started after the cordon, which it tolerates"},
	}
	for name, c := range cases {
		for kind, owner := range map[string]func(*snapshot.Pod){"a Deployment": of("web"), "a StatefulSet": ofSet("web"), "a Job": ofJob("web"), "what is not known": ownedBy("CloneSet", "web", "web")} {
			t.Run(kind+" "+name, func(t *testing.T) {
				s := tell(t, never("a"), node("a", ours), deployment("web", 2), pod("web-1", on("a"), owner))
				s.expect("evict web-1")
				s.answer(answers.Accepted)
				s.then(3*time.Second, gone("web-1"), pod("web-2", on("a"), owner, c.pod))
				if c.note == "" {
					s.expect("evict web-2")
					return
				}
				s.expect("mark a drained")
				same(t, "state", drain.Staying, s.status("web-2").State)
				same(t, "note", c.note, s.status("web-2").Note)
			})
		}
	}
}

// What was started after the cordon and does not tolerate it stays, too, but the node is not called drained with it.
func TestPodsThatDoNotTolerateTheCordonAndComeBack(t *testing.T) {
	s := tell(t, never("a"), node("a", ours), deployment("web", 2), pod("web-1", on("a"), of("web")))
	s.expect("evict web-1")
	s.answer(answers.Accepted)
	s.then(3*time.Second, gone("web-1"), pod("web-2", on("a"), of("web"), createdAt(start.Add(2*time.Second))))
	s.expect("mark a blocked")
	s.holds("web-2: StartedAfterCordon!")
}

// Running the drain again does not help a pod whose template names the node.
func TestPodsWhoseTemplateNamesTheNodeComeBack(t *testing.T) {
	names := func(node string) func(*snapshot.Workload) {
		return func(w *snapshot.Workload) { w.NodeName = node }
	}
	set := workload("StatefulSet", "db", 1)
	names("a")(set)
	later := createdAt(start.Add(2 * time.Second))
	for name, c := range map[string]struct {
		facts       fact
		pod, remedy string
	}{
		"a StatefulSet":    {all(func(c *clusterOf) { c.SetWorkload(set) }, pod("db-0", on("a"), ofSet("db"), later)), "db-0", "change spec.nodeName: kubectl edit -n default statefulset/db"},
		"a Deployment":     {all(deployment("web", 1, names("a")), pod("web-2", on("a"), of("web"), later)), "web-2", "change spec.nodeName: kubectl edit -n default deployment/web"},
		"of another node":  {all(deployment("web", 1, names("b")), pod("web-2", on("a"), of("web"), later)), "web-2", "run the drain again to evict it"},
		"no node is named": {all(deployment("web", 1), pod("web-2", on("a"), of("web"), later)), "web-2", "run the drain again to evict it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), node("a", ours), node("b"), c.facts)
			s.then(3 * time.Second)
			s.expect("mark a blocked")
			s.holds(c.pod + ": StartedAfterCordon!")
			same(t, "remedy", c.remedy, s.status(c.pod).Blockers[0].Remedy)
		})
	}

	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 1, names("a")), pods("web", "a", 1))
	s.expect("evict web-a1")
	same(t, "notes", []string{"default/web is not surged: its template names node a"}, s.last.Notes)
}

// Pods that were on the node when it was cordoned leave it, whatever the clock says.
func TestResidentsLeave(t *testing.T) {
	s := tell(t, never("a"), node("a"), pod("young", on("a"), ofSet("s"), toleratesAll, createdAt(start)))
	s.expect("cordon a draining")
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, version("2")))
	s.expect("evict young")
}

// Replacements on the nodes that are being drained are none: the surge is taken back, once.
func TestSurgeWhoseReplacementsComeBack(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "a", 1, toleratesAll),
		pod("web-new", on("a"), of("web"), toleratesAll, createdAt(start.Add(time.Second))))
	s.then(2 * time.Second)
	s.expect("scale web to 1, no record")
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 1, at("2")), gone("web-new"))
	s.expect("evict web-a1")
}

// A pod that came back is not missing any more, and not ready elsewhere either.
func TestWhatCameBackIsNoReplacement(t *testing.T) {
	req := never("a")
	req.WaitReplaced = true
	s := tell(t, req, node("a", ours), node("b"), deployment("web", 1), pod("web-1", on("a"), of("web"), toleratesAll))
	s.expect("evict web-1")
	s.answer(answers.Accepted)
	s.then(3*time.Second, gone("web-1"), pod("web-2", on("a"), of("web"), toleratesAll, createdAt(start.Add(2*time.Second))))
	s.expect("mark a drained")
	same(t, "state", drain.Ended, s.status("web-1").State)
	same(t, "note", "web-2 has come back to the node in its place", s.status("web-1").Note)
	s.ends(drain.Running)
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, state("drained"), version("2")))
	s.expect()
	s.ends(drain.Drained)
}

// TestStuckRollouts: a surge waits for a rollout while it goes on, and for a bounded time. Then the pods are evicted.
func TestStuckRollouts(t *testing.T) {
	single := pods("web", "a", 1)
	stuck := func(w *snapshot.Workload) {
		w.Settled, w.RolloutStuck = false, "its rollout has exceeded its progress deadline"
	}
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 1, stuck), single)
	s.expect("evict web-a1")
	same(t, "notes", []string{"default/web is not surged: its rollout has exceeded its progress deadline"}, s.last.Notes)

	s = tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 1, rolling), single)
	s.expect()
	s.holds("web-a1: RolloutUnderway")
	s.then(5*time.Minute, node("a", drainedBy(me, start.Add(5*time.Minute))))
	s.expect("evict web-a1")

	s = tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 1, stuck), single, budget("web", 1, 1, 1, minAvailable("1")))
	s.expect("mark a blocked")
	s.holds("web-a1: BudgetNeverAllows!")
}

// An autoscaler raises a Deployment to its minimum as soon as it looks: the surge begins there.
func TestSurgeFromTheAutoscalersMinimum(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, autoscaler("web", 3, 5))
	s.expect("scale-min web to 4, was 3")
	s.answer(answers.Accepted)
	s.then(time.Second, autoscaler("web", 4, 5, raisedBy(me, 3), scalerVersion("2")))
	s.expect("scale web to 4, was 3")
}

func both(a, b func(*snapshot.Pod)) func(*snapshot.Pod) {
	return func(p *snapshot.Pod) { a(p); b(p) }
}
