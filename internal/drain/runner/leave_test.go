package runner_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// leaveAfter has a drain left once that time has passed.
func leaveAfter(d time.Duration) <-chan struct{} {
	left := make(chan struct{})
	time.AfterFunc(d, func() { close(left) })
	return left
}

// A drain that is left begins nothing more and undoes nothing, whatever it was asked to undo.
func TestLeave(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("one")
		f.stick("one")
		run := f.drainer()
		run.Request.UncordonOnFailure = true
		run.Leave = leaveAfter(7 * time.Second)
		begin := time.Now()
		d := run.Run(t.Context())
		if d.Outcome != drain.Left || !d.Settled || len(d.Actions) > 0 || time.Since(begin) != 7*time.Second {
			t.Errorf("outcome %q, settled %v, actions %v after %s", d.Outcome, d.Settled, d.Actions, time.Since(begin))
		}
		f.wrote(t, "cordon draining", "evict one")
		if n := f.node(); !n.Unschedulable || n.Drain == nil || n.Drain.State != "draining" {
			t.Errorf("unschedulable %v, record %+v", n.Unschedulable, n.Drain)
		}
		if last := f.events[len(f.events)-1]; last != "end left" {
			t.Errorf("the last event is %q", last)
		}
	})
}

// What waits for a slot is not sent any more. Answers that come soon are waited for; what is answered later is cut off.
func TestLeaveWhileWritesAreUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		answer, leaves time.Duration
		settled        bool
	}{
		"answered soon":  {2 * time.Second, time.Second, true},
		"answered late":  {time.Minute, 3 * time.Second, false},
		"never answered": {time.Hour, 3 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFake(podNames(100)...)
				f.before = func(ctx context.Context, a drain.Action) {
					if a.Kind == drain.Evict {
						wait(ctx, c.answer)
					}
				}
				run := f.drainer()
				run.Leave = leaveAfter(time.Second)
				begin := time.Now()
				d := run.Run(t.Context())
				if d.Outcome != drain.Left || d.Settled != c.settled || time.Since(begin) != time.Second+c.leaves {
					t.Errorf("outcome %q, settled %v after %s", d.Outcome, d.Settled, time.Since(begin))
				}
				f.ending.Wait()
				if len(f.writes) != 65 { // a cordon, and an eviction for each slot
					t.Errorf("%d writes", len(f.writes))
				}
			})
		})
	}
}

// A drain may be left before its first turn, and while it undoes what it did after its end.
func TestLeaveAtTheEdges(t *testing.T) {
	t.Run("before the first turn", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			f := surged()
			run := f.drainer()
			run.Request.Dead = map[string]bool{"killed": true}
			left := make(chan struct{})
			close(left)
			run.Leave = left
			if d := run.Run(t.Context()); d.Outcome != drain.Left || !d.Settled {
				t.Errorf("outcome %q, settled %v", d.Outcome, d.Settled)
			}
			f.wrote(t)
		})
	})
	t.Run("while it is being cancelled", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			f := surged()
			f.before = func(ctx context.Context, a drain.Action) {
				if a.Kind == drain.Scale {
					wait(ctx, time.Hour)
				}
			}
			run := f.drainer()
			run.Request.Dead = map[string]bool{"killed": true}
			run.Request.UncordonOnFailure = true
			f.cluster.SetPod(&snapshot.Pod{Namespace: "default", Name: "one", UID: "uid-one", Node: "a", Finalizers: []string{"x/hold"}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			run.Leave = leaveAfter(2 * time.Second)
			if d := run.Run(ctx); d.Outcome != drain.Left || d.Settled {
				t.Errorf("outcome %q, settled %v", d.Outcome, d.Settled)
			}
			if slices.Contains(f.writes, "uncordon") || !f.node().Unschedulable {
				t.Errorf("writes %v", f.writes)
			}
		})
	})
}

// A drain that was cancelled, and left before all was undone, is undone by the next run, though that is cancelled from the beginning.
func TestGoOnWithUndoing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := leftWithOneStuck(t)
		f.change(func(c *snapshot.Cluster, _ string) {
			c.SetNode(&snapshot.Node{Name: "b", UID: "node-b", ResourceVersion: "0"})
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		next := f.drainer()
		next.Request.Nodes, next.Request.UncordonOnFailure, next.Ending = []string{"a", "b"}, true, drain.Interrupted
		if d := next.Run(ctx); d.Outcome != drain.Interrupted || !d.Settled || f.node().Unschedulable {
			t.Errorf("outcome %q, settled %v, unschedulable %v", d.Outcome, d.Settled, f.node().Unschedulable)
		}
		f.wrote(t, "cordon draining", "evict one", "uncordon")
	})
}

// Another run under the same id goes on from the records, and ends as one that was never left.
func TestGoOnWhereADrainWasLeft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("one", "two")
		f.stick("one")
		run := f.drainer()
		run.Leave = leaveAfter(7 * time.Second)
		run.Run(t.Context())
		f.ending.Wait()
		f.change(func(c *snapshot.Cluster, _ string) { c.DeletePod("uid-one") })
		d := f.drainer().Run(t.Context())
		if d.Outcome != drain.Drained || !d.Settled {
			t.Errorf("outcome %q, settled %v, blockers %v", d.Outcome, d.Settled, d.Blockers())
		}
		f.wrote(t, "cordon draining", "evict one", "evict two", "mark drained")
	})
}

// What was done to a node between two runs, and after the second has begun, is no less seen than by a drain that was never left.
func TestNodesGivenBackToADrainThatWasLeft(t *testing.T) {
	released := func(c *snapshot.Cluster, version string) {
		n := *c.Node("a")
		n.Drain, n.ResourceVersion = nil, version
		c.SetNode(&n)
	}
	for name, again := range map[string]func(*fake){
		"opened between":          func(f *fake) { f.byHand(false, "") },
		"opened after it went on": func(f *fake) { time.AfterFunc(5*time.Second, func() { f.byHand(false, "") }) },
		"its record taken off":    func(f *fake) { time.AfterFunc(5*time.Second, func() { f.change(released) }) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := leftWithOneStuck(t)
				again(f)
				next := f.drainer()
				next.Until = time.Now().Add(10 * time.Second)
				d := next.Run(t.Context())
				if reason := d.Nodes[0].Blockers; len(reason) != 1 || reason[0].Reason != drain.NodeNotCordoned {
					t.Errorf("outcome %q, blockers %v", d.Outcome, d.Blockers())
				}
				if slices.Index(f.writes[1:], "cordon draining") >= 0 {
					t.Errorf("it was cordoned anew: %v", f.writes)
				}
			})
		})
	}
}

// leftWithOneStuck is a cluster in which a drain was left while its one pod was terminating.
func leftWithOneStuck(t *testing.T) *fake {
	t.Helper()
	f := newFake("one")
	f.stick("one")
	run := f.drainer()
	run.Leave = leaveAfter(7 * time.Second)
	run.Run(t.Context())
	return f
}
