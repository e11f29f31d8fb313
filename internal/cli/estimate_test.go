package cli

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

func estimated(change func(*snapshot.Pod)) (snapshot.View, drain.Request) {
	c := snapshot.NewCluster()
	c.SetNode(&snapshot.Node{Name: "a", UID: "a", ResourceVersion: "1", Ready: true})
	p := &snapshot.Pod{Namespace: "shop", Name: "web", UID: "web", ResourceVersion: "1", Node: "a", Phase: corev1.PodRunning, Ready: true, Grace: 30 * time.Second}
	change(p)
	c.SetPod(p)
	req := drain.Request{Self: snapshot.Drainer{ID: "x", Beat: noon}, Nodes: []string{"a"}, DaemonSets: drain.DaemonSetsObject, Force: true, Started: noon}
	return snapshot.View{Now: noon, Cluster: c}, req
}

func TestOnlyADrainThatWouldBeDoneHasAnEnd(t *testing.T) {
	view, req := estimated(func(*snapshot.Pod) {})
	if end := expected(view, req); !end.After(noon) || end.After(noon.Add(30*time.Second)) {
		t.Errorf("the pod stops within its grace of 30s, and the end is expected at %s", end)
	}
	view, req = estimated(func(p *snapshot.Pod) { p.EmptyDirs = []string{"cache"} }) // an objection, which came later
	if end := expected(view, req); !end.IsZero() {
		t.Errorf("the pod cannot leave, and the end is expected at %s", end)
	}
}

// Where not all nodes are read, what leaves is taken to find room on those that are known.
func TestWhatLeavesFindsRoomOnNodesThatAreNotAllKnown(t *testing.T) {
	c := snapshot.NewCluster()
	for _, name := range []string{"a", "b"} {
		c.SetNode(&snapshot.Node{Name: name, Allocatable: snapshot.Resources{Pods: 1}})
	}
	makeRoom(c, []string{"a"})
	if c.Node("b").Allocatable.Pods != 1 {
		t.Error("all nodes are read, and one is given room")
	}
	c.SetPartial("nodes", true)
	makeRoom(c, []string{"a"})
	if a, b := c.Node("a").Allocatable.Pods, c.Node("b").Allocatable.Pods; a != 1 || b < 1000 {
		t.Errorf("room for %d pods on the drained node, for %d on another", a, b)
	}
}

func TestAForecastThatDidNotComeTrueIsNotRepeated(t *testing.T) {
	view, req := estimated(func(*snapshot.Pod) {})
	var p progress
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	for _, tt := range []struct {
		now  int
		want bool
	}{{0, true}, {10, true}, {20, true}, {23, true}, {24, false}, {60, false}} {
		view.Now = at(tt.now)
		end := p.keep(view, req, at(tt.now+20))
		if end.IsZero() == tt.want {
			t.Errorf("after %ds of a drain that was to take 20s: %s", tt.now, end)
		}
	}
	view.Cluster.DeletePod("web")
	if end := p.keep(view, req, at(70)); !end.Equal(at(70)) {
		t.Errorf("a pod left, and the end is expected at %s", end)
	}
}

func TestAForecastIsNotWaitedForAtTheEnd(t *testing.T) {
	view, req := estimated(func(*snapshot.Pod) {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // both may be ready: then either is right
		if _, ok := forecastEnd(ctx, view, req); !ok {
			return
		}
	}
	t.Error("forecasts are waited for after the drain")
}
