package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
)

// Undoing before a drain takes little of its deadline, and never long.
func TestUndoTime(t *testing.T) {
	now := time.Now()
	cases := map[string]struct {
		deadline time.Time
		want     time.Duration
	}{
		"no deadline":       {time.Time{}, 30 * time.Second},
		"a spot instance's": {now.Add(2 * time.Minute), 10 * time.Second},
		"a short one":       {now.Add(12 * time.Second), time.Second},
		"a long one":        {now.Add(time.Hour), 30 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := undoTime(c.deadline, now); got != c.want {
				t.Errorf("undoTime = %s, want %s", got, c.want)
			}
		})
	}
}

// What does not end is broken off, and the drain goes on. Whether there was an interrupt is the context's to say.
func TestUndoingBeforeADrainEnds(t *testing.T) {
	cases := map[string]struct {
		do   func(context.Context)
		stop time.Duration
		took time.Duration
		late bool
	}{
		"at once":     {func(context.Context) {}, time.Hour, 0, false},
		"without end": {func(ctx context.Context) { <-ctx.Done() }, time.Hour, 10 * time.Second, true},
		"interrupted": {func(ctx context.Context) { <-ctx.Done() }, time.Second, time.Second, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.stop)
				defer cancel()
				began := time.Now()
				late := within(ctx, 10*time.Second, c.do)
				if late != c.late || time.Since(began) != c.took {
					t.Errorf("late %v after %s, want %v after %s", late, time.Since(began), c.late, c.took)
				}
			})
		})
	}
}

// No drain begins once its command was interrupted, or its time is over.
func TestUndoingBeforeADrainThatDoesNotBegin(t *testing.T) {
	const left = `"surged":["` + broken + `"]`
	cases := map[string]struct {
		interrupt, timeout time.Duration
		took               time.Duration
		code               int
		says               []string
	}{
		"too long": {time.Hour, time.Hour, 30 * time.Second, exitDone, []string{broken, "was not undone within 30s, and the drain begins"}},
		"interrupted": {time.Second, time.Hour, time.Second, exitInterrupted, []string{
			"interrupted, and no node was drained", `"outcome":"interrupted"`, left,
		}},
		"timed out": {time.Hour, time.Second, time.Second, exitLate, []string{
			"and no node was drained: what killed drains left", `"outcome":"timeout"`, left,
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := sessionThrough(t, fake.NewClientset(raised(t)...), &rest.Config{Transport: unanswered{}})
				defer s.close()
				var out bytes.Buffer
				o := &drainOptions{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &out}, timeout: c.timeout}
				v := newVoice(o.IOStreams, "json", show.Commands{Flags: []string{"--context=lab"}})
				ctx, stop := context.WithTimeout(t.Context(), c.timeout)
				defer stop()
				defer time.AfterFunc(c.interrupt, stop).Stop()
				began := s.clock.Now()
				err := o.undoFirst(ctx, s, drain.Request{Started: began}, v)
				if code, took := settle(err, &out), s.clock.Now().Sub(began); code != c.code || took != c.took {
					t.Errorf("exit %d after %s, want %d after %s", code, took, c.code, c.took)
				}
				for _, want := range c.says {
					if !strings.Contains(out.String(), want) {
						t.Errorf("no %q in\n%s", want, &out)
					}
				}
			})
		})
	}
}
