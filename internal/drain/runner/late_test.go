package runner_test

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

// Evictions that wait for a slot while the node is opened are not sent: its pods stay, whatever cordons it meanwhile.
func TestEvictionsOfANodeThatWasOpenedAreNotSent(t *testing.T) {
	opened := func(f *fake) { f.byHand(false, "") }
	cordonedBy := func(client string) func(*fake) { return func(f *fake) { f.byHand(true, client) } }
	cases := map[string][]func(*fake){
		"it stays open":               {opened},
		"it is cordoned again":        {opened, cordonedBy("")},
		"… by a client that is known": {opened, cordonedBy("kubectl")},
		"what opened it is not seen":  {cordonedBy("kubectl")},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFake(podNames(200)...)
				f.before = func(ctx context.Context, a drain.Action) {
					if a.Kind != drain.Evict {
						return
					}
					for _, step := range steps {
						wait(ctx, 5*time.Second)
						step(f)
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
		})
	}
}

// byHand cordons the node, or makes it schedulable, as kubectl does: the record stays. By is whose the cordon is known to be.
func (f *fake) byHand(unschedulable bool, by string) {
	f.change(func(c *snapshot.Cluster, version string) {
		n := *c.Node("a")
		n.Unschedulable, n.CordonedBy, n.CordonLost, n.ResourceVersion = unschedulable, by, by != "", version
		c.SetNode(&n)
	})
}

// What is being read is waited for, and no longer than its time: what decides about a pod may be in it.
func TestNothingIsDoneWhileTheViewIsNotWhole(t *testing.T) {
	for name, takes := range map[string]time.Duration{"it comes": 3 * time.Second, "it never comes": snapshot.ReadingFor} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f, began := newFake(podNames(2)...), time.Now()
				f.reading = began
				f.before = func(_ context.Context, a drain.Action) {
					if time.Since(began) < takes {
						t.Errorf("%s after %s", a.Kind, time.Since(began))
					}
				}
				comes := time.AfterFunc(3*time.Second, func() {
					f.change(func(*snapshot.Cluster, string) {
						if takes < snapshot.ReadingFor {
							f.reading = time.Time{}
						}
					})
				})
				defer comes.Stop()
				if d := f.drainer().Run(t.Context()); d.Outcome != drain.Drained {
					t.Errorf("outcome %q", d.Outcome)
				}
				f.ending.Wait()
			})
		})
	}
}

// A drain that is over before its first turn ends as such, also while something is being read.
func TestOverBeforeTheViewIsWhole(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(podNames(2)...)
		f.reading = time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if d := f.drainer().Run(ctx); d.Outcome != drain.Interrupted || len(f.writes) > 0 {
			t.Errorf("outcome %q, written %v", d.Outcome, f.writes)
		}
	})
}
