package sim_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// alone is a node with two pods that nothing owns and that are not ready.
func alone() (snapshot.View, drain.Request) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	c := snapshot.NewCluster()
	c.SetNode(&snapshot.Node{Name: "a", UID: "a", ResourceVersion: "1", Ready: true})
	for _, name := range []string{"shell", "tool"} {
		c.SetPod(&snapshot.Pod{
			Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "1", Node: "a",
			Phase: corev1.PodRunning, Created: now.Add(-time.Hour), Grace: 30 * time.Second,
		})
	}
	req := drain.Request{Self: snapshot.Drainer{ID: "x", Beat: now}, Nodes: []string{"a"}, Force: true, DaemonSets: drain.DaemonSetsObject}
	return snapshot.View{Now: now, Cluster: c}, req
}

func TestWhatIsAssumedNamesPodsThatNothingOwns(t *testing.T) {
	plan := sim.Forecast(alone())
	want := "how long it takes until pods are ready of which none is: Pod shop/shell (20s), Pod shop/tool (20s)"
	if !slices.Contains(plan.Unknown, want) {
		t.Errorf("no %q in %q", want, plan.Unknown)
	}
}

// TestADrainEndsWithItsLastPod: what happens on other nodes later does not count.
func TestADrainEndsWithItsLastPod(t *testing.T) {
	plan := sim.Forecast(alone())
	if plan.Outcome != drain.Drained || plan.Duration != 5*time.Second {
		t.Errorf("%q after %s, want drained after the 5s that pods take to stop", plan.Outcome, plan.Duration)
	}
}
