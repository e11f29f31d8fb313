package sim_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// TestScalingDownWhatStays: it may remove a pod of a node that was given back once its deletion cost could not be restored six times.
func TestScalingDownWhatStays(t *testing.T) {
	for _, c := range []struct{ restores, wrong int }{{0, 1}, {5, 1}, {6, 0}} {
		w := newWorld()
		w.node("a", "z1")
		top := w.workload("Deployment", "web", []string{"a", "a"})
		req := drain.Request{Self: snapshot.Drainer{ID: "d1"}, Nodes: []string{"a"}}
		s := sim.New(w.view(), sim.Config{Judge: &req})
		send := func(action drain.Action) {
			t.Helper()
			if answer := s.Do(action); answer.Code != answers.Accepted {
				t.Fatal(action.Kind, answer)
			}
			s.Advance(s.View().Now.Add(time.Second))
		}
		record := &snapshot.DrainRecord{Drainer: req.Self, State: "draining", Cordoned: true}
		send(drain.Action{Kind: drain.Cordon, Node: s.View().Cluster.Node("a"), Record: record})
		stale := podNamed(s, "web-0")
		send(drain.Action{Kind: drain.LowerCost, Pod: stale, Drain: "d1"})
		marked := *podNamed(s, "web-0")
		marked.ResourceVersion = stale.ResourceVersion
		s.Cordon("a", false)
		s.Advance(s.View().Now.Add(time.Second))
		for range c.restores {
			if answer := s.Do(drain.Action{Kind: drain.RestoreCost, Pod: &marked}); answer.Code != answers.Conflict {
				t.Fatal(answer)
			}
		}
		s.Do(drain.Action{Kind: drain.Scale, Workload: s.Truth().Cluster.Workload(top.UID), Replicas: 1})
		if got := s.Violations(); len(got) != c.wrong {
			t.Errorf("after %d: %d violations, want %d: %s", c.restores, len(got), c.wrong, got)
		}
	}
}
