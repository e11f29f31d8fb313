package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain/runner"
)

// A node that cannot be read keeps no other from being checked or begun, and is the only one that is said to fail: where something has objected to
// all nodes, where all begin at once, and where its turn is the first.
func TestNodeThatCannotBeReadHoldsNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		unreadable string
		objected   bool
		atOnce     int32
		cordoned   int
	}{
		"checked first":       {"n3", true, 1, 1},
		"all begin at once":   {"n3", false, 6, 5},
		"its turn is first":   {"n0", false, 1, 1},
		"… and it is checked": {"n0", true, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSix(t)
				s.m.Spec.Concurrency = v1alpha1.MaintenanceConcurrency{Nodes: c.atOnce, Zones: 2}
				if c.objected {
					s.look()
				}
				s.drains.observe = func(_ context.Context, names []string) (runner.Source, func(), error) {
					if slices.Contains(names, c.unreadable) {
						return nil, nil, errors.New("reading the cluster: not done after 2m0s")
					}
					return s.source, func() {}, nil
				}
				s.m.Spec.Drain.EmptyDirPods = v1alpha1.PodsEvict
				for range 4 {
					s.look()
					<-time.After(afterFailure + time.Second)
				}
				s.look()
				if len(s.cordons) != c.cordoned {
					t.Errorf("%d nodes are cordoned, want %d: %+v", len(s.cordons), c.cordoned, s.m.Status.Counts)
				}
				failed := 0
				for _, e := range s.m.Status.Nodes {
					fails := slices.ContainsFunc(e.Blockers, func(b v1alpha1.MaintenanceBlocker) bool { return b.Reason == "DrainFailed" })
					if fails != (e.Name == c.unreadable) {
						t.Errorf("%s: %+v", e.Name, e.Blockers)
					}
					if fails {
						failed++
					}
				}
				if failed != 1 {
					t.Errorf("the failure of %s is not said: %+v", c.unreadable, s.m.Status)
				}
				s.end()
			})
		})
	}
}

// What fails for all nodes is not tried for each of them.
func TestOutageIsNotTriedForEachNode(t *testing.T) {
	d := newDrains(Options{Now: now})
	d.ctx = t.Context()
	var tries atomic.Int32
	d.observe = func(context.Context, []string) (runner.Source, func(), error) {
		tries.Add(1)
		return nil, nil, errors.New("reaching the apiserver: no answer")
	}
	batch := map[string]*run{}
	for i := range 5000 {
		batch[fmt.Sprintf("n%d", i)] = &run{leave: make(chan struct{})}
	}
	d.begin(batch)
	d.running.Wait()
	if most := int32(1 + partsOf*mostFailures); tries.Load() > most {
		t.Errorf("%d tries, want %d at most", tries.Load(), most)
	}
	for name, state := range d.States() {
		if state.Failure == "" {
			t.Fatalf("the failure of %s is not said", name)
		}
	}
}
