package runner_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/snapshot"
)

// ownWatch is the fake cluster with changes of one observer.
type ownWatch struct {
	*fake

	changed chan struct{}
}

func (w ownWatch) Changed() <-chan struct{} { return w.changed }

// budgeted is a cluster of two nodes with a pod each, and one elsewhere, under one budget that allows one eviction. Its status shows an eviction a second
// late, and allows the next one when the pod is gone.
type budgeted struct {
	*fake

	allowed  int
	refused  int
	evicted  []time.Duration // when an eviction was accepted
	watches  []chan struct{}
	deny     string // the pod whose eviction a webhook denies
	began    time.Time
	outcomes chan drain.Outcome
}

func newBudgeted() *budgeted {
	b := &budgeted{fake: newFake(), allowed: 1, began: time.Now(), outcomes: make(chan drain.Outcome, 2)}
	b.cluster.SetNode(&snapshot.Node{Name: "b", UID: "node-b", ResourceVersion: "0", Ready: true})
	for pod, node := range map[string]string{"one": "a", "two": "b", "three": "c"} {
		b.cluster.SetPod(&snapshot.Pod{
			Namespace: "default", Name: pod, UID: types.UID("uid-" + pod), ResourceVersion: "0", Node: node, Ready: true,
			Phase: corev1.PodRunning, Grace: 30 * time.Second, Labels: map[string]string{"app": "web"},
		})
	}
	b.cluster.SetBudget(b.status("0"))
	b.refuse = b.serve
	return b
}

// status is the budget as its status shows it.
func (b *budgeted) status(version string) *snapshot.Budget {
	return &snapshot.Budget{
		Namespace: "default", Name: "web", UID: "budget", ResourceVersion: version, Selector: labels.SelectorFromSet(labels.Set{"app": "web"}),
		Observed: true, Allowed: int32(b.allowed), Current: 2, Desired: 1, Expected: 3, //nolint:gosec // one
	}
}

// serve answers evictions as the apiserver does.
func (b *budgeted) serve(a drain.Action) *answers.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case a.Kind != drain.Evict:
		return nil
	case a.Pod.Name == b.deny:
		return &answers.Answer{Code: answers.Denied, Message: "not now"}
	case b.allowed == 0:
		b.refused++
		return &answers.Answer{Code: answers.RefusedByBudget, Message: "it would violate the budget"}
	}
	b.allowed--
	b.evicted = append(b.evicted, time.Since(b.began))
	b.show(time.Second)
	time.AfterFunc(10*time.Second, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.allowed++
		b.show(0)
	})
	return nil
}

// show has the status seen after a time. The caller holds the lock.
func (b *budgeted) show(after time.Duration) {
	time.AfterFunc(after, func() {
		b.change(func(c *snapshot.Cluster, version string) { c.SetBudget(b.status(version)) })
		for _, w := range b.watches {
			select {
			case w <- struct{}{}:
			default:
			}
		}
	})
}

// drainBoth runs a drain of each node.
func (b *budgeted) drainBoth(ctx context.Context, shared *runner.Shared) {
	for _, node := range []string{"a", "b"} {
		watch := ownWatch{b.fake, make(chan struct{}, 1)}
		b.watches = append(b.watches, watch.changed)
		run := b.drainer()
		run.Source, run.Reporter, run.Shared = watch, newFake(), shared
		run.Request.Self.ID, run.Request.Nodes = "drain-"+node, []string{node}
		go func() { b.outcomes <- run.Run(ctx).Outcome }()
	}
}

// Two drains of one process use one room of a budget once, though neither sees what the other has sent before it is a second old.
func TestRunnersShareBudgets(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBudgeted()
		b.drainBoth(t.Context(), &runner.Shared{})
		for range 2 {
			if got := <-b.outcomes; got != drain.Drained {
				t.Errorf("outcome %q", got)
			}
		}
		b.ending.Wait()
		if b.refused > 0 || len(b.evicted) != 2 {
			t.Errorf("%d evictions refused, accepted at %v", b.refused, b.evicted)
		}
	})
}

// What is refused to one drain is free for the other at once.
func TestRefusedEvictionsFreeTheBudgetForOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBudgeted()
		b.before = func(ctx context.Context, a drain.Action) {
			b.mu.Lock()
			denied := a.Kind == drain.Evict && b.deny == ""
			if denied {
				b.deny = a.Pod.Name
			}
			b.mu.Unlock()
			if denied {
				wait(ctx, 2*time.Second)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		b.drainBoth(ctx, &runner.Shared{})
		<-b.outcomes
		<-b.outcomes
		b.ending.Wait()
		if len(b.evicted) != 1 || b.evicted[0] != 2*time.Second || b.refused > 0 {
			t.Errorf("%d evictions refused, accepted at %v", b.refused, b.evicted)
		}
	})
}
