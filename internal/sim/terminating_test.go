package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

func endedAgo(ago time.Duration, finalizers ...string) podOption {
	return func(p *snapshot.Pod) { p.Deletion, p.Grace, p.Finalizers = p.Created.Add(time.Hour-ago), 0, finalizers }
}

// A pod that was terminating before the drain is waited for like any other: one whose
// grace is over, and which finalizers hold, is named however short a time it has been so.
func TestPlanNamesWhatIsHeldByFinalizers(t *testing.T) {
	for name, ago := range map[string]time.Duration{"just now": 0, "for a second": time.Second, "for an hour": time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.node("a", "z")
			w.pod("held", "a", endedAgo(ago, "example.com/hold"))
			plan := sim.Forecast(w.view(), drain.Request{Nodes: []string{"a"}, Force: true})
			if plan.Outcome != drain.Blocked || len(plan.Left) != 1 || !strings.HasPrefix(plan.Left[0].Why, "held by finalizer example.com/hold") {
				t.Errorf("outcome %q, left %+v", plan.Outcome, plan.Left)
			}
		})
	}
}

func TestPlanAssumesThatFinalizersAreRemoved(t *testing.T) {
	w := newWorld()
	w.node("a", "z")
	w.pod("ending", "a", endedAgo(-10*time.Second, "example.com/hold"))
	plan := sim.Forecast(w.view(), drain.Request{Nodes: []string{"a"}, Force: true})
	if plan.Outcome != drain.Drained || plan.Pods != 1 {
		t.Errorf("outcome %q, %d pods", plan.Outcome, plan.Pods)
	}
	want := "that finalizers are removed when the containers have ended: shop/ending (example.com/hold)"
	if diff := cmp.Diff(want, plan.Unknown[len(plan.Unknown)-1]); diff != "" {
		t.Error(diff)
	}
}

// Pods that are ending anyway, and that the filters leave alone, do not leave by the drain.
func TestPlanCountsOnlyThePodsOfTheDrain(t *testing.T) {
	w := newWorld()
	w.node("a", "z")
	w.pod("web", "a")
	w.pod("static", "a", endedAgo(-10*time.Second), func(p *snapshot.Pod) { p.Mirror = true })
	w.pod("ending", "a", endedAgo(-10*time.Second))
	if plan := sim.Forecast(w.view(), drain.Request{Nodes: []string{"a"}, Force: true}); plan.Pods != 2 {
		t.Errorf("%d pods leave, want web and ending", plan.Pods)
	}
}
