package drainer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

func podNames(n int) []string {
	names := make([]string, 0, n)
	for i := range n {
		names = append(names, fmt.Sprintf("pod-%03d", i))
	}
	return names
}

// Evictions that take their time, more than there are slots, keep no sign of life waiting: the drain would count as dead.
func TestSignsOfLifeWaitForNoEvictions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(podNames(300)...)
		last, longest := time.Now(), time.Duration(0)
		f.before = func(ctx context.Context, a drain.Action) {
			if a.Kind == drain.Evict {
				wait(ctx, 20*time.Second)
				return
			}
			longest, last = max(longest, time.Since(last)), time.Now()
		}
		if d := f.drainer().Run(t.Context()); d.Outcome != drain.Drained {
			t.Errorf("outcome %q", d.Outcome)
		}
		f.ending.Wait()
		if longest > snapshot.BeatEvery {
			t.Errorf("there was no sign of life for %s", longest)
		}
	})
}

// A process that is suspended while evictions wait for a slot sends none of them before its node was claimed anew.
func TestEvictionsThatWaitedTooLongAreNotSent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(podNames(100)...)
		f.before = func(ctx context.Context, a drain.Action) {
			if a.Kind != drain.Evict {
				return
			}
			f.Read(func(view snapshot.View) {
				if beat := view.Cluster.Node("a").Drain.Beat; !view.Now.Before(beat.Add(snapshot.LiveFor)) {
					t.Errorf("%s is evicted, the last sign of life is %s old", a.Pod.Name, view.Now.Sub(beat))
				}
			})
			wait(ctx, 5*time.Second)
			f.suspend()
		}
		if d := f.drainer().Run(t.Context()); d.Outcome != drain.Drained {
			t.Errorf("outcome %q, blockers %v", d.Outcome, d.Blockers())
		}
		f.ending.Wait()
		if len(f.writes) != 103 { // a cordon, an eviction each, a claim anew and the end
			t.Errorf("%d writes", len(f.writes))
		}
	})
}

// Evictions that wait for a slot while the node is opened are not sent: its pods stay.
func TestEvictionsOfANodeThatWasOpenedAreNotSent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(podNames(200)...)
		f.before = func(ctx context.Context, a drain.Action) {
			if a.Kind == drain.Evict {
				wait(ctx, 5*time.Second)
				f.open()
			}
		}
		if d := f.drainer().Run(t.Context()); d.Outcome != drain.Blocked {
			t.Errorf("outcome %q", d.Outcome)
		}
		f.ending.Wait()
		evicted := 0
		for _, w := range f.writes {
			if strings.HasPrefix(w, "evict ") {
				evicted++
			}
		}
		if evicted != 64 {
			t.Errorf("%d pods were evicted, want those that were under way", evicted)
		}
	})
}

// open makes the node schedulable as kubectl does: the record stays.
func (f *fake) open() {
	f.change(func(c *snapshot.Cluster, version string) {
		n := *c.Node("a")
		n.Unschedulable, n.ResourceVersion = false, version
		c.SetNode(&n)
	})
}
