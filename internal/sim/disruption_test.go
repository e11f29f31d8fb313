package sim_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// TestBudgetArithmetic follows getExpectedPodCount upstream: both kinds of percentage
// are rounded up, a minimum in numbers counts pods, the others what the owners want.
func TestBudgetArithmetic(t *testing.T) {
	type status struct{ expected, desired, current, allowed int32 }
	for _, c := range []struct {
		name   string
		form   budgetOption
		kind   string
		pods   int
		wanted int32 // -1: as many as there are pods
		gap    string
		want   status
	}{
		{"minAvailable 2 of 3", minAvailable("2"), "Deployment", 3, -1, "", status{3, 2, 3, 1}},
		{"minAvailable counts pods, not replicas", minAvailable("2"), "Deployment", 3, 5, "", status{3, 2, 3, 1}},
		{"minAvailable 50% of 3 rounds up", minAvailable("50%"), "Deployment", 3, -1, "", status{3, 2, 3, 1}},
		{"minAvailable % counts replicas", minAvailable("50%"), "Deployment", 3, 5, "", status{5, 3, 3, 0}},
		{"maxUnavailable 1 of 3", maxUnavailable("1"), "Deployment", 3, -1, "", status{3, 2, 3, 1}},
		{"maxUnavailable counts replicas", maxUnavailable("1"), "Deployment", 3, 4, "", status{4, 3, 3, 0}},
		{"maxUnavailable 25% of 3 rounds up", maxUnavailable("25%"), "Deployment", 3, -1, "", status{3, 2, 3, 1}},
		{"maxUnavailable more than there are", maxUnavailable("9"), "Deployment", 3, -1, "", status{3, 0, 3, 3}},
		{"maxUnavailable 0", maxUnavailable("0"), "Deployment", 3, -1, "", status{3, 3, 3, 0}},
		{"minAvailable 100%", minAvailable("100%"), "StatefulSet", 3, -1, "", status{3, 3, 3, 0}},
		{"a ReplicaSet of its own", maxUnavailable("1"), "ReplicaSet", 2, -1, "", status{2, 1, 2, 1}},
		{"a Job has no scale: the controller fails, nothing is allowed", maxUnavailable("1"), "Job", 2, -1, "", status{0, 0, 0, 0}},
		{"a Job under a minimum in numbers", minAvailable("1"), "Job", 2, -1, "", status{2, 1, 2, 1}},
		{"bare pods do not count towards percentages", maxUnavailable("1"), "", 2, -1, "", status{0, 0, 2, 0}},
		{"bare pods under a minimum in numbers", minAvailable("1"), "", 2, -1, "", status{2, 1, 2, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.node("a", "z1")
			nodes := []string{"a", "a", "a"}[:c.pods]
			if c.kind == "" {
				for i := range nodes {
					w.pod(string(rune('p'+i)), "a", func(p *snapshot.Pod) { p.Labels = map[string]string{"app": "web"} })
				}
			} else {
				top := w.workload(c.kind, "web", nodes)
				if c.wanted >= 0 {
					changed := *top
					changed.Replicas = c.wanted
					w.cluster.SetWorkload(&changed)
				}
			}
			w.budget("web", "web", c.form)
			b := w.view().Cluster.Budget(snapshot.Key{Namespace: "shop", Name: "web"})
			if got := (status{b.Expected, b.Desired, b.Current, b.Allowed}); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// A DaemonSet of another group may have a scale, which is not known: what the server last said stands.
func TestBudgetOfAnotherGroupsDaemonSet(t *testing.T) {
	for version, want := range map[string]int32{"apps/v1": 0, "apps.kruise.io/v1alpha1": 1} {
		w := newWorld()
		w.node("a", "z1")
		w.workload("DaemonSet", "web", []string{"a", "a"}, func(p *snapshot.Pod) {
			p.Owner.APIVersion = version
			if version != "apps/v1" {
				p.Owner.UID = "not-read"
			}
		})
		w.budget("web", "web", maxUnavailable("1"), func(b *snapshot.Budget) { b.Expected = 2 })
		if b := w.view().Cluster.Budget(snapshot.Key{Namespace: "shop", Name: "web"}); b.Allowed != want {
			t.Errorf("%s: %d may go, want %d", version, b.Allowed, want)
		}
	}
}

// The eviction API asks no budget for a pod whose containers have not started, so none of them counts as healthy.
func TestFlipStartsNoContainers(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	w.pod("web-0", "a", func(p *snapshot.Pod) { p.Phase, p.Ready, p.ReadySince = corev1.PodPending, false, time.Time{} })
	s := sim.New(w.view(), sim.Config{Boot: after(time.Hour)})
	s.Flip(podNamed(s, "web-0").UID, true)
	if podNamed(s, "web-0").Ready {
		t.Error("a pod got ready though its containers have not started")
	}
}

// Counting pods as they change must give what counting them all anew gives.
func TestCountsStayRight(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	w.node("b", "z1")
	s := w.web("a", "a", "b")
	s.Flip(podNamed(s, "web-1").UID, false)
	evict(s, podNamed(s, "web-0"))
	s.Flip(podNamed(s, "web-1").UID, true)
	for {
		next, some := s.Next()
		if !some {
			break
		}
		s.Advance(next)
	}
	got := *budgetNamed(s, "web")
	fresh := newWorld()
	fresh.cluster, fresh.now = s.Truth().Cluster, s.Truth().Now
	want := fresh.view().Cluster.Budget(got.Key())
	if got.Current != want.Current || got.Desired != want.Desired || got.Expected != want.Expected || got.Allowed != want.Allowed {
		t.Errorf("counted as it went %+v, counted anew %+v", got, *want)
	}
	if got.Current != 3 {
		t.Errorf("%d healthy pods at the end", got.Current)
	}
}
