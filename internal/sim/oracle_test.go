package sim_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// TestWhatASurgeThatIsGivenUpKeeps: nothing. While an autoscaler's minimum is raised no pod may go before its replacement
// is ready; but where another client has scaled the Deployment, its record goes, and that on the autoscaler may go last.
func TestWhatASurgeThatIsGivenUpKeeps(t *testing.T) {
	for _, c := range []struct {
		name, givenUp string
		wrong         int
	}{{"going on", "", 1}, {"given up", "its replicas were set by another client", 0}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.node("a", "z1", func(n *snapshot.Node) { n.Unschedulable = true })
			top := w.workload("Deployment", "web", []string{"a", "a", "a"})
			w.autoscaler("web", 3, 6)
			req := drain.Request{Self: snapshot.Drainer{ID: "d1"}, Nodes: []string{"a"}}
			s := sim.New(w.view(), sim.Config{Scaler: time.Hour, Judge: &req})
			s.Do(drain.Action{
				Kind: drain.ScaleMin, Autoscaler: s.Truth().Cluster.Autoscalers()[0], Workload: top, Replicas: 4,
				Surge: &snapshot.SurgeRecord{Drainer: req.Self, Was: 3, To: 4, Base: 3},
			})
			s.Do(drain.Action{Kind: drain.Scale, Workload: top, Replicas: 3, GiveUp: c.givenUp})
			if answer := s.Do(drain.Action{Kind: drain.Evict, Pod: podNamed(s, "web-0")}); answer.Code != answers.Accepted {
				t.Fatal(answer)
			}
			if got := s.Violations(); len(got) != c.wrong {
				t.Errorf("%d violations, want %d: %s", len(got), c.wrong, got)
			}
		})
	}
}
