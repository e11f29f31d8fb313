package policycache

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

func TestWhatIsKnownIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newStage(), &fakeSystem{takes: time.Second}
		k, p := w.observer(), w.policy("a", s)
		began := time.Now()
		first := k.Evidence(t.Context(), of(p), 0, 10*time.Second)
		if first.Error != "" || first.Summary != "well" || !first.Observed.Equal(began) {
			t.Fatalf("evidence %+v, want an answer observed at %s", first, began)
		}
		wait(9 * time.Second)
		if again := k.Evidence(t.Context(), of(p), 0, 10*time.Second); again != first {
			t.Errorf("evidence of %s was asked for again after 10 s", again.Observed)
		}
		wait(time.Second)
		if again := k.Evidence(t.Context(), of(p), 0, 10*time.Second); again == first {
			t.Error("evidence that is 11 s old was given although at most 10 s is accepted")
		}
		if asked, _ := s.count(); asked != 2 {
			t.Errorf("asked %d times, want 2", asked)
		}
	})
}

// What was observed before a step was found done says that it is not, and would be believed until it is too old.
func TestAStepThatIsDoneIsObserved(t *testing.T) {
	for name, c := range map[string]struct {
		progress eviction.Progress
		fails    error
		asked    int
	}{
		"on its way":      {asked: 1},
		"more to do":      {progress: eviction.ProgressSoon, asked: 1},
		"done":            {progress: eviction.ProgressDone, asked: 2},
		"not known to be": {progress: eviction.ProgressDone, fails: errors.New("503"), asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newStage(), &fakeSystem{job: eviction.Job{ID: "7", Progress: c.progress}}
			k, p := w.observer(), w.policy("a", s)
			k.Evidence(t.Context(), of(p), 0, time.Hour)
			s.fails = c.fails
			if _, err := k.Prepare(t.Context(), of(p), eviction.Preparation{}); !errors.Is(err, c.fails) {
				t.Fatal(err)
			}
			k.Evidence(t.Context(), of(p), 0, time.Hour)
			if asked, _ := s.count(); asked != c.asked {
				t.Errorf("asked %d times, want %d", asked, c.asked)
			}
		})
	}
}

func TestNothingIsAskedForACallerThatDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newStage(), &fakeSystem{takes: time.Second}
		k, p := w.observer(), w.policy("a", s)
		over, end := context.WithCancel(t.Context())
		end()
		said := k.Evidence(over, of(p), 3, 10*time.Second)
		synctest.Wait()
		if asked, _ := s.count(); asked != 0 || said.Error == "" || said.Epoch != 3 {
			t.Errorf("asked %d times, and it says %+v", asked, said)
		}
		first := k.Evidence(t.Context(), of(p), 3, 10*time.Second)
		if again := k.Evidence(over, of(p), 3, 10*time.Second); again != first || first.Error != "" {
			t.Errorf("what is known is %+v, and it says %+v", first, again)
		}
	})
}

func TestAJumpingClockNeitherRenewsEvidenceNorAsksWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newStage(), &fakeSystem{takes: time.Second}
		k, p := w.observer(), w.policy("a", s)
		jumped := time.Duration(0)
		k.config.Now = func() time.Time {
			jumped -= time.Minute
			return time.Now().Add(jumped)
		}
		first := k.Evidence(t.Context(), of(p), 0, 10*time.Second)
		wait(10 * time.Second)
		if again := k.Evidence(t.Context(), of(p), 0, 10*time.Second); again == first {
			t.Error("evidence that is 11 s old was given although at most 10 s is accepted, because the clock was set back")
		}
		if asked, _ := s.count(); asked != 2 {
			t.Errorf("asked %d times, want 2", asked)
		}
	})
}

func TestOneObservationServesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newStage(), &fakeSystem{takes: time.Second}
		k, p := w.observer(), w.policy("a", s)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if e := k.Evidence(t.Context(), of(p), 0, time.Second); e.Error != "" {
					t.Error(e.Error)
				}
			})
		}
		all.Wait()
		if asked, _ := s.count(); asked != 1 {
			t.Errorf("asked %d times, want once", asked)
		}
	})
}

func TestEvidenceOfAnEarlierEpochIsNotGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newStage(), &fakeSystem{takes: time.Second}
		k, p := w.observer(), w.policy("a", s)
		var all sync.WaitGroup
		all.Go(func() {
			if e := k.Evidence(t.Context(), of(p), 0, time.Minute); e.Epoch != 1 || e.Error != "" {
				t.Errorf("who asked before the epoch changed got %+v, want the answer of epoch 1", e)
			}
		})
		wait(500 * time.Millisecond) // the first observation is under way, and was begun too early for epoch 1
		e := k.Evidence(t.Context(), of(p), 1, time.Minute)
		if e.Epoch != 1 || e.Error != "" {
			t.Errorf("evidence %+v, want an answer of epoch 1", e)
		}
		all.Wait()
		if behind := k.Evidence(t.Context(), of(p), 0, time.Minute); behind != e {
			t.Errorf("who is behind got %+v, want what is known", behind)
		}
		if later := k.Evidence(t.Context(), of(p), 2, time.Minute); later.Epoch != 2 {
			t.Errorf("epoch %d, want 2", later.Epoch)
		}
	})
}

func TestNewEvidenceIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newStage(), &fakeSystem{}
		k, p := w.observer(), w.policy("a", s)
		changes := 0
		source := of(p)
		source.Changed = func() { changes++ }
		look := func(epoch int64, want int) {
			t.Helper()
			wait(2 * time.Second)
			k.Evidence(t.Context(), source, epoch, time.Second)
			synctest.Wait()
			if changes != want {
				t.Errorf("Changed was called %d times, want %d", changes, want)
			}
		}
		look(0, 1)
		look(0, 1)
		look(1, 2) // the same of another epoch
		source.Generation++
		look(1, 3) // and by another spec
		s.fails = errDown
		look(1, 4)
		look(1, 4)
	})
}

func TestEvidenceOfAnotherSpecIsNotGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, before, after := newStage(), &fakeSystem{takes: time.Second}, &fakeSystem{takes: time.Second}
		k, policy := w.observer(), w.policy("a", before)
		k.Evidence(t.Context(), of(policy), 0, 10*time.Second)
		changed := w.policy("b", after)
		changed.UID, changed.Name, changed.Generation = policy.UID, policy.Name, policy.Generation+1
		k.Track(of(changed))
		k.Evidence(t.Context(), of(policy), 0, 10*time.Second) // by a caller whose cache is behind
		k.Evidence(t.Context(), of(changed), 0, 10*time.Second)
		if asked, _ := after.count(); asked != 1 {
			t.Errorf("the system of the new spec was asked %d times, want once", asked)
		}
	})
}

func TestAnObservationThatWasOvertakenBringsNothing(t *testing.T) {
	early, late := &observation{result: &eviction.Evidence{Error: "context canceled"}}, &observation{version: version{epoch: 1}}
	e := &entry{inflight: late}
	if e.complete(early, &meter{budget: newBudget(0)}, time.Now()); e.last != nil || e.inflight != late {
		t.Errorf("the entry knows %+v and follows %+v", e.last, e.inflight)
	}
}

func TestASystemThatHangsHoldsUpOnlyItsOwn(t *testing.T) {
	for _, ignores := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, hung, well := newStage(), &fakeSystem{takes: time.Hour, ignores: ignores}, &fakeSystem{}
			k, p, q := w.observer(), w.policy("hung", hung), w.policy("well", well)
			began := time.Now()
			var all sync.WaitGroup
			all.Go(func() {
				if e := k.Evidence(t.Context(), of(p), 0, time.Second); !strings.Contains(e.Error, "has not answered within 5s") {
					t.Errorf("error %q, want one that says how long was waited", e.Error)
				}
			})
			wait(time.Second)
			if e := k.Evidence(t.Context(), of(q), 0, time.Second); e.Error != "" || time.Since(began) != time.Second {
				t.Errorf("the other system's evidence is %+v after %s", e, time.Since(began))
			}
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if e := k.Evidence(short, of(p), 0, time.Second); e.Error != "the system has not answered yet" {
				t.Errorf("error %q for a caller that could not wait", e.Error)
			}
			all.Wait()
			for range 3 {
				k.Evidence(t.Context(), of(p), 0, time.Second)
			}
			if asked, _ := hung.count(); ignores && asked != 1 {
				t.Errorf("a client that does not return was called %d times", asked)
			}
			wait(2 * time.Hour)
		})
	}
}

func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newStage(), &fakeSystem{fails: errDown}
		k, p := w.observer(), w.policy("a", s)
		for range 5 {
			if e := k.Evidence(t.Context(), of(p), 0, time.Minute); e.Error != errDown.Error() {
				t.Fatalf("error %q, want %q", e.Error, errDown)
			}
		}
		if asked, _ := s.count(); asked != 1 {
			t.Errorf("a system that refuses was asked %d times in a row", asked)
		}
		wait(time.Second)
		s.set(func(s *fakeSystem) { s.fails, s.fault = nil, true })
		if e := k.Evidence(t.Context(), of(p), 0, time.Minute); !strings.Contains(e.Error, "a fault in Usher") {
			t.Errorf("error %q of a client that panics", e.Error)
		}
		wait(time.Second)
		s.set(func(s *fakeSystem) { s.fault = false })
		good := k.Evidence(t.Context(), of(p), 0, time.Minute)
		if good.Error != "" {
			t.Errorf("error %q of a system that answers again", good.Error)
		}
		p.Spec.System = v1alpha1.System{Etcd: &v1alpha1.Etcd{}}
		p.Generation++
		wait(2 * time.Minute)
		if e := k.Evidence(t.Context(), of(p), 0, time.Minute); e.Error != "spec.system declares no system, or none that this version of Usher knows" {
			t.Errorf("error %q of a system that is not known", e.Error)
		}
	})
}

func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newStage(), &fakeSystem{takes: 100 * time.Millisecond}
		k, p := w.observer(), w.policy("a", s)
		k.Track(of(p))
		run(t, k)
		wait(time.Hour)
		idle, _ := s.count()
		if idle < 100 || idle > 140 {
			t.Errorf("asked %d times in an idle hour, want about 120", idle)
		}
		for range 60 {
			if e := k.Evidence(t.Context(), of(p), 0, of(p).MaxAge()); e.Error != "" {
				t.Error(e.Error)
			}
			wait(time.Second)
		}
		busy, _ := s.count()
		if busy -= idle; busy < 11 || busy > 14 {
			t.Errorf("asked %d times in a minute of interest, want about 12", busy)
		}
		left := p.DeepCopy()
		left.Status.Epoch = 7
		k.Track(of(left))
		wait(time.Second)
		if known := k.Known(of(p)); known.Epoch != 7 {
			t.Errorf("epoch %d a second after a member has left, want 7", known.Epoch)
		}
		k.Forget(p.UID)
		before, _ := s.count()
		wait(time.Hour)
		if after, closed := s.count(); after != before || closed != 1 {
			t.Errorf("asked %d times after it was forgotten; closed %d times", after-before, closed)
		}
	})
}

func TestWhoAsksAboutAPolicyThatIsNotTrackedLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newStage(), &fakeSystem{}
		k, p := w.observer(), w.policy("a", s)
		run(t, k)
		k.Evidence(t.Context(), of(p), 0, time.Second)
		wait(10 * time.Minute)
		if left := len(k.all()); left != 0 {
			t.Errorf("%d entries are left", left)
		}
	})
}

// wait lets the bubble's time pass.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
