package runner_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/snapshot"
)

// Every test runs in a bubble: its clock stands still while anything runs, and a
// goroutine that is left behind fails the test.
func inBubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func TestDrain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("one", "two", "three")
		begin := time.Now()
		d := f.drainer().Run(t.Context())
		f.ending.Wait()
		if d.Outcome != drain.Drained || !d.Settled {
			t.Errorf("outcome %q, settled %v", d.Outcome, d.Settled)
		}
		if took := time.Since(begin); took != podEndsAfter {
			t.Errorf("it took %s, the pods take %s", took, podEndsAfter)
		}
		f.wrote(t, "cordon draining", "evict one", "evict two", "evict three", "mark drained")
		if last := f.events[len(f.events)-1]; last != "end drained" {
			t.Errorf("the last event is %q", last)
		}
	})
}

// Answers that come late and in another order change nothing but the time it takes.
func TestLateAnswers(t *testing.T) {
	delays := map[string]time.Duration{"one": 9 * time.Second, "two": 5 * time.Second, "three": time.Second}
	late := func(ctx context.Context, a drain.Action) {
		if a.Pod != nil {
			wait(ctx, delays[a.Pod.Name])
		}
	}
	cases := map[string]func(*fake){
		"carried out late":            func(f *fake) { f.before = late },
		"carried out, answered later": func(f *fake) { f.after = late },
	}
	for name, set := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFake("one", "two", "three")
				set(f)
				if d := f.drainer().Run(t.Context()); d.Outcome != drain.Drained {
					t.Errorf("outcome %q", d.Outcome)
				}
				f.ending.Wait()
				f.wrote(t, "cordon draining", "evict one", "evict two", "evict three", "mark drained")
			})
		})
	}
}

// A write whose answer is lost after it was carried out is not taken for refused: the
// pod is seen to go, and is not evicted twice.
func TestLostAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("one")
		f.refuse = func(a drain.Action) *answers.Answer {
			if a.Kind != drain.Evict {
				return nil
			}
			f.change(func(c *snapshot.Cluster, version string) { f.carryOut(c, a, version) })
			return &answers.Answer{Code: answers.Unavailable, Message: "connection reset"}
		}
		if d := f.drainer().Run(t.Context()); d.Outcome != drain.Drained {
			t.Errorf("outcome %q", d.Outcome)
		}
		f.ending.Wait()
		f.wrote(t, "cordon draining", "evict one", "mark drained")
		if !slices.Contains(f.events, "answer aone") {
			t.Errorf("the lost answer is not said: %v", f.events)
		}
	})
}

func TestInterrupt(t *testing.T) {
	for _, uncordon := range []bool{false, true} {
		t.Run(fmt.Sprintf("uncordon %v", uncordon), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFake("one")
				f.stick("one")
				run := f.drainer()
				run.Request.UncordonOnFailure = uncordon
				ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
				defer cancel()
				d := run.Run(ctx)
				if d.Outcome != drain.Interrupted || !d.Settled {
					t.Errorf("outcome %q, settled %v", d.Outcome, d.Settled)
				}
				if uncordon {
					f.wrote(t, "cordon draining", "evict one", "uncordon")
				} else {
					f.wrote(t, "cordon draining", "evict one", "mark interrupted")
				}
				if f.node().Unschedulable == uncordon {
					t.Errorf("unschedulable: %v", f.node().Unschedulable)
				}
			})
		})
	}
}

// What ends a drain before its first turn is not passed over: no node is cordoned, and what a killed drain has left stays to the next
// one.
func TestOverBeforeTheFirstTurn(t *testing.T) {
	for want, end := range map[drain.Outcome]func(*runner.Runner, context.CancelFunc){
		drain.Interrupted: func(_ *runner.Runner, cancel context.CancelFunc) { cancel() },
		drain.TimedOut:    func(d *runner.Runner, _ context.CancelFunc) { d.Until = time.Now() },
	} {
		t.Run(string(want), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := surged()
				run := f.drainer()
				run.Request.Dead = map[string]bool{"killed": true}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				end(run, cancel)
				if d := run.Run(ctx); d.Outcome != want {
					t.Errorf("outcome %q", d.Outcome)
				}
				f.wrote(t)
				if f.node().Unschedulable || f.frames != 1 || !slices.Contains(f.events, "end "+string(want)) {
					t.Errorf("unschedulable %v, %d frames, events %v", f.node().Unschedulable, f.frames, f.events)
				}
			})
		})
	}
}

// stick makes a pod stay terminating for ever.
func (f *fake) stick(name string) {
	f.change(func(c *snapshot.Cluster, _ string) {
		p := *c.PodNamed(snapshot.Key{Namespace: "default", Name: name})
		p.Finalizers = []string{"x/hold"}
		c.SetPod(&p)
	})
}

func TestTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("one")
		f.stick("one")
		run := f.drainer()
		begin := time.Now()
		run.Until = begin.Add(10 * time.Second)
		d := run.Run(t.Context())
		if d.Outcome != drain.TimedOut || time.Since(begin) != 10*time.Second {
			t.Errorf("outcome %q after %s", d.Outcome, time.Since(begin))
		}
		if len(d.Blockers()) != 1 || d.Blockers()[0].Reason != drain.Leaving {
			t.Errorf("the last decision says %v", d.Blockers())
		}
	})
}

// An eviction that the server does not answer, because a webhook takes its time, is waited
// for a second after the end. What was not sent by then is not sent any more.
func TestTimeoutWhileEvictionsAreNotAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprintf("pod-%03d", i))
		}
		f := newFake(names...)
		f.before = func(ctx context.Context, a drain.Action) {
			if a.Kind == drain.Evict {
				wait(ctx, time.Minute)
			}
		}
		run := f.drainer()
		begin := time.Now()
		run.Until = begin.Add(5 * time.Second)
		d := run.Run(t.Context())
		if took := time.Since(begin); d.Outcome != drain.TimedOut || !d.Settled || took != 6*time.Second {
			t.Errorf("outcome %q, settled %v after %s", d.Outcome, d.Settled, took)
		}
		if f.most != 65 || len(f.writes) != 66 { // the slots and the mark; these and the cordon
			t.Errorf("%d writes, %d at once", len(f.writes), f.most)
		}
		words := map[string]int{}
		for _, b := range d.Blockers() {
			words[b.Message]++
		}
		if words["the drain ended before it was sent"] != 36 || words["the drain ended before the server answered; it may be carried out yet"] != 64 {
			t.Errorf("it is said of the pods: %v", words)
		}
	})
}

func TestDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("one")
		f.stick("one")
		run := f.drainer()
		run.Request.Deadline = time.Now().Add(time.Minute)
		begin := time.Now()
		d := run.Run(t.Context())
		if d.Outcome != drain.DeadlinePassed || time.Since(begin) != time.Minute {
			t.Errorf("outcome %q after %s", d.Outcome, time.Since(begin))
		}
	})
}

// A server that never answers cannot hold the end for ever, and nothing is left running.
func TestWriterThatNeverAnswers(t *testing.T) {
	for _, kind := range []drain.Kind{drain.Cordon, drain.Evict, drain.Mark} {
		t.Run(string(kind), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFake("one")
				f.before = func(ctx context.Context, a drain.Action) {
					if a.Kind == kind {
						<-ctx.Done()
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begin := time.Now()
				d := f.drainer().Run(ctx)
				f.ending.Wait()
				if took := time.Since(begin); took > 3*time.Minute {
					t.Errorf("it took %s to end", took)
				}
				if d.Outcome == drain.Running {
					t.Error("it ended without an outcome")
				}
			})
		})
	}
}

// An idle drain waits for events: it turns only to give its signs of life.
func TestIdleDrainIsIdle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("one")
		f.stick("one")
		run := f.drainer()
		run.Until = time.Now().Add(time.Hour)
		run.Run(t.Context())
		if turns := int(time.Hour / snapshot.BeatEvery); f.frames > 4*turns {
			t.Errorf("%d turns in an hour, want at most %d", f.frames, 4*turns)
		}
		if len(f.writes) > int(time.Hour/snapshot.BeatEvery)+3 {
			t.Errorf("%d writes in an hour", len(f.writes))
		}
	})
}

func TestWritesAtOnceAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var names []string
		for i := range 300 {
			names = append(names, fmt.Sprintf("pod-%03d", i))
		}
		f := newFake(names...)
		f.before = func(ctx context.Context, _ drain.Action) { wait(ctx, time.Second) }
		if d := f.drainer().Run(t.Context()); d.Outcome != drain.Drained {
			t.Errorf("outcome %q", d.Outcome)
		}
		f.ending.Wait()
		if f.most > 64 || f.most < 32 {
			t.Errorf("%d writes were under way at once", f.most)
		}
		if len(f.writes) != 302 {
			t.Errorf("%d writes", len(f.writes))
		}
	})
}

func TestBlockedDrainEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake("one", "two")
		f.refuse = func(a drain.Action) *answers.Answer {
			if a.Kind == drain.Evict && a.Pod.Name == "one" {
				return &answers.Answer{Code: answers.Rejected, Message: "no"}
			}
			return nil
		}
		d := f.drainer().Run(t.Context())
		f.ending.Wait()
		if d.Outcome != drain.Blocked || len(d.Blockers()) != 1 || d.Blockers()[0].Reason != drain.RejectedByServer {
			t.Errorf("outcome %q, blockers %v", d.Outcome, d.Blockers())
		}
		f.wrote(t, "cordon draining", "evict one", "evict two", "mark blocked")
	})
}
