package drain_test

import (
	"slices"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// step is a rollout of web that has made so many of its new pods: its ReplicaSets say how far it is.
func step(made int) fact {
	before, after := workload("ReplicaSet", "web-rs", int32(3-made)), workload("ReplicaSet", "web-new-rs", int32(made))
	for _, set := range []*snapshot.Workload{before, after} {
		set.Owner = snapshot.Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-web"}
	}
	return func(c *snapshot.Cluster) {
		c.SetWorkload(before)
		c.SetWorkload(after)
	}
}

// A rollout that goes on makes a surplus with each step, which its controller removes at once: none of them is room, however long ago the first
// step was.
func TestEachStepOfARolloutIsNoRoom(t *testing.T) {
	ofDB := func(p *snapshot.Pod) { p.Labels = map[string]string{"app": "web"} }
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 3, rolling), pods("web", "b", 3),
		statefulSet("db", 2), pod("db-0", on("a"), ofSet("db"), ofDB), pod("db-1", on("b"), ofSet("db"), ofDB, unready),
		budget("web", 4, 4, 5, minAvailable("4")))
	s.expect()
	old, version := []string{"web-b1", "web-b2", "web-b3", "web-new0", "web-new1"}, 1
	next := func() string { version++; return string(rune('0' + version)) }
	for i := range 3 {
		young := "web-new" + string(rune('0'+i))
		s.then(70*time.Second, node("a", drainedBy(me, s.now.Add(70*time.Second))), pod(young, on("b"), of("web")), step(i+1), budget("web", 5, 4, 6, minAvailable("4"), budgetVersion(next())))
		s.expect() // the controller of the rollout is about to remove an old pod: not room
		if evicts := len(s.open) > 0; evicts {
			s.answer(answers.Accepted)
			s.then(0, pod("db-0", on("a"), ofSet("db"), ofDB, endsAt(s.now.Add(30*time.Second))), gone(old[i]))
			b := s.cluster.Budget(snapshot.Key{Namespace: "default", Name: "web"})
			t.Fatalf("step %d, %s after the first: the budget needs %d, %d are healthy", i, s.now.Sub(start)-70*time.Second, b.Desired, s.cluster.HealthyUnder(b))
		}
		s.then(100*time.Millisecond, gone(old[i]), budget("web", 4, 4, 5, minAvailable("4"), budgetVersion(next())))
		s.expect()
	}
}

// The same for pods of the workload that is rolled out.
func TestEachStepOfARolloutIsNoRoomForItsOwnPods(t *testing.T) {
	req := ask("a")
	req.Surge, req.Persistent = drain.SurgeNever, true
	s := tell(t, req, node("a", ours), node("b"), deployment("web", 3, rolling), pods("web", "a", 1), pods("web", "b", 2), budget("web", 3, 3, 3, minAvailable("3")))
	version := 1
	next := func() string { version++; return string(rune('0' + version)) }
	old := []string{"web-b1", "web-b2", "web-new0", "web-new1"}
	s.decide()
	s.answer(answers.Accepted)
	for i := range 3 {
		young := "web-new" + string(rune('0'+i))
		s.then(70*time.Second, node("a", drainedBy(me, s.now.Add(70*time.Second))), pod(young, on("b"), of("web")), step(i+1), budget("web", 4, 3, 4, minAvailable("3"), budgetVersion(next())))
		for _, a := range s.decide().Actions {
			if a.Kind == drain.Evict {
				s.then(0, pod("web-a1", on("a"), of("web"), endsAt(s.now.Add(30*time.Second))), gone(old[i]))
				b := s.cluster.Budget(snapshot.Key{Namespace: "default", Name: "web"})
				t.Fatalf("step %d: evict %s; the controller removes %s: the budget needs %d, %d are healthy", i, a.Pod.Name, old[i], b.Desired, s.cluster.HealthyUnder(b))
			}
		}
		s.answer(answers.Accepted)
		s.then(100*time.Millisecond, gone(old[i]), budget("web", 3, 3, 3, minAvailable("3"), budgetVersion(next())))
		s.decide()
		s.answer(answers.Accepted)
	}
}

// A StatefulSet (podManagementPolicy Parallel) that is scaled down loses its highest ordinals, also where its first pod is the one that is not ready.
func TestSurplusOfAStatefulSetWhoseFirstIsUnready(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), statefulSet("db", 2), pod("db-0", on("b"), ofSet("db"), unready), pod("db-1", on("a"), ofSet("db")),
		pod("db-2", on("b"), ofSet("db")), budget("db", 2, 1, 3, minAvailable("1")))
	s.expect()
}

// What waits for a surge that is stuck for good is stuck, too: the drain ends.
func TestWhatWaitsForAStuckSurgeIsStuck(t *testing.T) {
	ofDB := func(p *snapshot.Pod) { p.Labels = map[string]string{"app": "web"} }
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 3, surgedBy(me, 2, start)), pods("web", "a", 2, marked(me)), pods("web", "b", 2),
		statefulSet("db", 1), pod("db-0", on("a"), ofSet("db"), ofDB), budget("web", 5, 4, 5, minAvailable("4")))
	s.decide()
	s.answer(answers.Accepted)
	for range 240 {
		s.then(15*time.Second, node("a", drainedBy(me, s.now.Add(15*time.Second))))
		s.decide()
		if slices.Contains(deeds(s.last), "mark a blocked") {
			return
		}
		s.answer(answers.Accepted)
	}
	if s.last.Outcome == drain.Running {
		t.Errorf("goes on after %s%s", s.now.Sub(start), s.where())
	}
}

// A surge whose scaling down is refused for good has added pods that stay: they are not waited for.
func TestSurgeThatMayNotEndHoldsNoOthers(t *testing.T) {
	ofDB := func(p *snapshot.Pod) { p.Labels = map[string]string{"app": "web"} }
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "a", 1, marked(me)), pods("web", "b", 1),
		statefulSet("db", 1), pod("db-0", on("a"), ofSet("db"), ofDB), budget("web", 3, 2, 3, minAvailable("2")))
	s.expect("scale web to 1, no record")
	s.answer(answers.Denied)
	s.expect("evict db-0")
}

// A pod that goes once another one is ready is not stuck, also where a surge is.
func TestPodThatWaitsForAnotherIsNotStuck(t *testing.T) {
	ofDB := func(p *snapshot.Pod) { p.Labels = map[string]string{"app": "web"} }
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 3, surgedBy(me, 2, start)), pods("web", "a", 2, marked(me)), pods("web", "b", 2),
		statefulSet("db", 2), pod("db-0", on("a"), ofSet("db"), ofDB), pod("db-1", on("b"), ofSet("db"), ofDB, unready), budget("web", 5, 4, 5, minAvailable("4")))
	s.decide()
	s.answer(answers.Accepted)
	for range 24 {
		s.then(15*time.Second, node("a", drainedBy(me, s.now.Add(15*time.Second))))
		s.decide()
		s.answer(answers.Accepted)
	}
	for _, b := range s.status("db-0").Blockers {
		if b.Dead {
			t.Errorf("db-0: %s Dead: %s; %s; outcome %q", b.Reason, b.Message, b.Remedy, s.last.Outcome)
		}
	}
	s.then(15*time.Second, node("a", drainedBy(me, s.now.Add(15*time.Second))), pod("db-1", on("b"), ofSet("db"), ofDB), budget("web", 6, 4, 5, minAvailable("4"), budgetVersion("2")))
	s.expect("evict db-0")
}

// A budget's status does not show the surge of another drain yet, nor a pod that has failed.
func TestNeedsByAStaleStatus(t *testing.T) {
	ofDB := func(p *snapshot.Pod) { p.Labels = map[string]string{"app": "web"} }
	s := tell(t, ask("a"), node("a", ours), node("b"), node("c", drainedBy("other", start)), deployment("web", 2, surgedBy("other", 1, start)), pods("web", "c", 1, marked("other")), pods("web", "b", 1),
		statefulSet("db", 2), pod("db-0", on("a"), ofSet("db"), ofDB), pod("db-1", on("b"), ofSet("db"), ofDB, unready),
		budget("web", 3, 2, 3, maxUnavailable("1")))
	s.decide()
	for _, a := range s.last.Actions {
		if a.Kind == drain.Evict {
			t.Errorf("evict %s: once the surge is over one of web, db-0 and db-1 is healthy; maxUnavailable 1 of 3 needs 2", a.Pod.Name)
		}
	}
}

// The same where many are surged.
func TestNeedsByAStatusWithoutTheSurge(t *testing.T) {
	ofDB := func(p *snapshot.Pod) { p.Labels = map[string]string{"app": "web"} }
	s := tell(t, ask("a"), node("a", ours), node("b"), node("c", drainedBy("other", start)), deployment("web", 6, surgedBy("other", 3, start)), pods("web", "c", 3, marked("other")), pods("web", "b", 1),
		statefulSet("db", 3), pod("db-0", on("a"), ofSet("db"), ofDB), pod("db-1", on("b"), ofSet("db"), ofDB), pod("db-2", on("b"), ofSet("db"), ofDB, unready),
		budget("web", 6, 5, 6, maxUnavailable("1")))
	s.decide()
	for _, a := range s.last.Actions {
		if a.Kind == drain.Evict {
			t.Errorf("evict %s", a.Pod.Name)
		}
	}
}
