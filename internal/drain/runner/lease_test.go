package runner_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// leasing lets the drain have a Lease.
func leasing(f *fake) *fake {
	f.cluster.SetLeasesRead("", true)
	return f
}

// A drain whose Lease is in force writes nothing on its nodes while it waits, and keeps what waits for a slot in time.
func TestLeaseInPlaceOfMarks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := leasing(newFake(podNames(300)...))
		f.before = func(ctx context.Context, a drain.Action) {
			if a.Kind == drain.Evict {
				wait(ctx, time.Minute)
			}
		}
		if d := f.drainer().Run(t.Context()); d.Outcome != drain.Drained || !d.Settled {
			t.Errorf("outcome %q, settled %v", d.Outcome, d.Settled)
		}
		f.ending.Wait()
		counts := map[string]int{}
		for _, w := range f.writes {
			counts[w]++
		}
		if counts["mark draining"] > 0 || counts["delete-lease"] != 1 || counts["renew-lease"] < 20 || counts["renew-lease"] > 22 {
			t.Errorf("writes %v", counts)
		}
		if lease, _ := f.cluster.LeaseOf("me"); lease != nil {
			t.Errorf("the Lease is left: %+v", lease)
		}
	})
}

// A drain that is left keeps its Lease; the next process takes it over, and ends as one that was never left.
func TestLeaseOfADrainThatWasLeft(t *testing.T) {
	for name, pause := range map[string]time.Duration{"taken over in force": 10 * time.Second, "taken over after a gap": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := leasing(newFake("one", "two"))
				f.stick("one")
				run := f.drainer()
				run.Leave = leaveAfter(7 * time.Second)
				run.Run(t.Context())
				f.ending.Wait()
				if lease, _ := f.cluster.LeaseOf("me"); lease == nil {
					t.Fatal("the Lease is gone")
				}
				wait(t.Context(), pause)
				f.change(func(c *snapshot.Cluster, _ string) { c.DeletePod("uid-one") })
				next := f.drainer()
				next.Request.Self.PID = 2
				if d := next.Run(t.Context()); d.Outcome != drain.Drained || !d.Settled {
					t.Errorf("outcome %q, settled %v, blockers %v", d.Outcome, d.Settled, d.Blockers())
				}
				if lease, _ := f.cluster.LeaseOf("me"); lease != nil || slices.Index(f.writes, "evict two") < 0 {
					t.Errorf("the Lease is left: %+v; writes %v", lease, f.writes)
				}
			})
		})
	}
}

// A process that does not know that it was to leave does so when another one has taken the Lease.
func TestLeaseTakenByAnotherProcess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := leasing(newFake("one"))
		f.stick("one")
		outcomes := make(chan drain.Outcome)
		go func() { outcomes <- f.drainer().Run(t.Context()).Outcome }()
		wait(t.Context(), 7*time.Second)
		f.change(func(c *snapshot.Cluster, version string) {
			lease, _ := c.LeaseOf("me")
			taken := *lease
			taken.Holder, taken.ResourceVersion = "other/1", version
			c.SetLease(&taken)
		})
		if got := <-outcomes; got != drain.Left {
			t.Errorf("outcome %q", got)
		}
	})
}

// A drain that is over does not wait long for the end of its Lease, which counts no more within a minute, whatever is answered and though
// the watch shows nothing.
func TestLeaseThatIsNotDeleted(t *testing.T) {
	for code, most := range map[answers.Code]time.Duration{
		answers.Gone: 0, answers.Forbidden: 0, answers.Rejected: 0, answers.RefusedForNow: 10 * time.Second, answers.Conflict: 15 * time.Second, answers.Unavailable: 35 * time.Second,
	} {
		t.Run(string(code), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := leasing(newFake("one"))
				f.refuse = func(a drain.Action) *answers.Answer {
					if a.Kind != drain.DeleteLease {
						return nil
					}
					return &answers.Answer{Code: code, Message: "no"}
				}
				began := time.Now()
				d := f.drainer().Run(t.Context())
				took := time.Since(began) - podEndsAfter
				if d.Outcome != drain.Drained || !d.Settled || took > most {
					t.Errorf("outcome %q, settled %v, %s after its last pod", d.Outcome, d.Settled, took)
				}
				if left := len(d.Notes) > 0; left == (code == answers.Gone) {
					t.Errorf("notes %q", d.Notes)
				}
			})
		})
	}
}

// A drain that has nothing to do, or little, ends as soon as its Lease is gone, also when that was never renewed.
func TestShortDrainEndsAtOnce(t *testing.T) {
	for _, pods := range []int{0, 1} {
		inBubble(t, func(t *testing.T) {
			f, began := leasing(newFake(podNames(pods)...)), time.Now()
			if d := f.drainer().Run(t.Context()); d.Outcome != drain.Drained || !d.Settled {
				t.Errorf("outcome %q, settled %v", d.Outcome, d.Settled)
			}
			f.ending.Wait()
			if took, needs := time.Since(began), time.Duration(pods)*podEndsAfter; took > needs {
				t.Errorf("%d pods took %s, want %s", pods, took, needs)
			}
			if lease, _ := f.cluster.LeaseOf("me"); lease != nil {
				t.Errorf("the Lease is left: %+v", lease)
			}
		})
	}
}
