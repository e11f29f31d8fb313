package maintenance

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/snapshot"
)

// cordons notes which nodes are cordoned. It implements runner.Writer.
type cordons chan string

func (c cordons) Do(_ context.Context, a drain.Action) answers.Answer {
	if a.Kind == drain.Cordon {
		c <- a.Node.Name
	}
	return answers.Answer{Code: answers.Accepted}
}

// six is a maintenance of six nodes, one at a time, each with a pod whose data would be lost, and a process that leads.
type six struct {
	drains  *Drains
	in      maintenance.Input
	m       *v1alpha1.NodeMaintenance
	cluster *snapshot.Cluster
	source  still
	cordons cordons
}

func newSix(t *testing.T) *six {
	t.Helper()
	s := &six{cluster: snapshot.NewCluster(), cordons: make(cordons, 100)}
	s.source = newStill(s.cluster)
	s.m = &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "m", Generation: 1, Finalizers: []string{maintenance.Finalizer}},
		Spec: v1alpha1.NodeMaintenanceSpec{
			Concurrency: v1alpha1.MaintenanceConcurrency{Nodes: 1, Zones: 1}, WhenDrained: v1alpha1.WhenDrained{KeepCordoned: &v1alpha1.KeepCordoned{}},
		},
	}
	s.in = maintenance.Input{Now: now(), Maintenances: []*v1alpha1.NodeMaintenance{s.m}}
	for i := range 6 {
		name := fmt.Sprintf("n%d", i)
		s.m.Spec.Nodes.Names = append(s.m.Spec.Nodes.Names, name)
		n := &snapshot.Node{Name: name, UID: types.UID(name), Ready: true, Zone: fmt.Sprintf("z%d", i%2)}
		s.cluster.SetNode(n)
		s.in.Nodes = append(s.in.Nodes, &maintenance.Node{Node: n})
		s.cluster.SetPod(&snapshot.Pod{
			Namespace: "shop", Name: "p-" + name, UID: types.UID("p-" + name), Node: name, Phase: corev1.PodRunning, EmptyDirs: []string{"cache"},
			Owner: snapshot.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web"},
		})
	}
	s.lead(t)
	return s
}

// lead has another process lead.
func (s *six) lead(t *testing.T) {
	t.Helper()
	s.drains = newDrains(Options{Now: now, Log: slog.New(slog.DiscardHandler)})
	s.drains.ctx, s.drains.writer = t.Context(), s.cordons
	s.drains.observe = func(context.Context, []string) (runner.Source, func(), error) {
		return s.source, func() {}, nil
	}
}

// look decides and carries out, as often as it takes.
func (s *six) look() {
	for range 20 {
		s.in.Now, s.in.Drains = now(), s.drains.States()
		decision := maintenance.Decide(s.in)
		if status := decision.Statuses["m"]; status != nil {
			s.m.Status = *status
		}
		s.drains.Apply(s.in, decision.Orders)
		synctest.Wait()
	}
}

// end has all drains left.
func (s *six) end() {
	s.drains.mu.Lock()
	for _, r := range s.drains.known {
		r.goAway()
	}
	s.drains.mu.Unlock()
	s.drains.running.Wait()
}

// Once what objected to the drains of all nodes is gone, no more of them begin than the limits allow, and the others say what they wait for: where
// the terms are changed, and where another process leads.
func TestObjectionsThatGoTogetherKeepTheLimits(t *testing.T) {
	for name, anew := range map[string]bool{"other terms": false, "another process leads": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSix(t)
				s.look()
				if c := s.m.Status.Counts; c.Blocked != 6 || len(s.cordons) > 0 {
					t.Fatalf("%d nodes are cordoned of %+v", len(s.cordons), c)
				}
				if anew {
					s.end()
					s.lead(t)
				}
				s.m.Spec.Drain.EmptyDirPods = v1alpha1.PodsEvict
				s.look()
				if c := s.m.Status.Counts; len(s.cordons) != 1 || c.Planned != 5 {
					t.Errorf("%d nodes are cordoned at once of %+v", len(s.cordons), c)
				}
				for _, e := range s.m.Status.Nodes {
					waits := slices.ContainsFunc(e.Blockers, func(b v1alpha1.MaintenanceBlocker) bool { return b.Reason == string(drain.NodeWaitsTurn) })
					if waits == (e.Name == "n0") {
						t.Errorf("%s: %+v", e.Name, e.Blockers)
					}
				}
				s.end()
			})
		})
	}
}

// What objects to the drain of a node is known also while there is no room for it, of a process that leads anew.
func TestNodesWithoutRoomAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSix(t)
		s.look()
		s.end()
		s.lead(t)
		busy := *s.in.Nodes[5].Node
		busy.Unschedulable, busy.Drain = true, &snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: snapshot.MaintenancePrefix + "5"}, Cordoned: true, State: snapshot.Draining}
		s.in.Nodes[5].Node = &busy
		s.cluster.SetNode(&busy)
		s.look()
		for _, e := range s.m.Status.Nodes[:5] {
			if len(e.Blockers) != 1 || e.Blockers[0].Reason != string(drain.LocalStorage) || !e.Blocked {
				t.Errorf("%s: %+v", e.Name, e.Blockers)
			}
		}
		s.end()
	})
}
