package maintenance

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/snapshot"
)

// still is a cluster in which nothing happens. It implements runner.Source, and is read by one at a time as the real one is.
type still struct {
	cluster *snapshot.Cluster
	mu      *sync.Mutex
}

func newStill(cluster *snapshot.Cluster) still { return still{cluster, &sync.Mutex{}} }

func (s still) Read(look func(snapshot.View)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	look(snapshot.View{Now: noon, Cluster: s.cluster})
}

func (still) Changed() <-chan struct{} { return nil }

// Drains that begin together know of each other, so that each waits for the others' cordons. Not among them are nodes that are not touched,
// and drains that only undo.
func TestDrainsBeginTogether(t *testing.T) {
	cluster := snapshot.NewCluster()
	batch := map[string]*run{}
	for _, name := range []string{"n1", "n2", "n3", "bare", "back"} {
		cluster.SetNode(&snapshot.Node{Name: name, UID: "n", Ready: true})
		batch[name] = &run{request: maintenance.Terms{}.Request(name, snapshot.Drainer{ID: snapshot.MaintenancePrefix + name}, noon.Add(-time.Minute)), leave: make(chan struct{})}
	}
	cluster.SetPod(&snapshot.Pod{Namespace: "shop", Name: "bare", UID: "bare", Node: "bare", Phase: corev1.PodRunning})
	batch["back"].ending = true
	d := newDrains(Options{Now: func() time.Time { return noon }})
	names := d.together(batch, newStill(cluster))
	if diff := cmp.Diff([]string{"back", "n1", "n2", "n3"}, names); diff != "" {
		t.Errorf("drains that run (-want +got):\n%s", diff)
	}
	for name, r := range batch {
		beside, started := []string{"n1", "n2", "n3"}, noon
		if name == "bare" || name == "back" {
			beside, started = nil, noon.Add(-time.Minute)
		}
		if diff := cmp.Diff(beside, r.request.Beside); diff != "" || !r.request.Started.Equal(started) {
			t.Errorf("%s, begun %s, knows (-want +got):\n%s", name, r.request.Started, diff)
		}
	}
	if bare := batch["bare"]; !bare.over || len(bare.state.Blockers) != 1 || bare.state.Blockers[0].Reason != drain.UnreplicatedPod || bare.retry.IsZero() {
		t.Errorf("a pod that nothing replaces: %+v", bare.state)
	}
}
