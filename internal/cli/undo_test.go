package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
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

// What does not end is broken off, and the drain goes on; an interrupt and an error are passed on.
func TestUndoingBeforeADrainEnds(t *testing.T) {
	failed := errors.New("no access")
	cases := map[string]struct {
		do   func(context.Context) error
		stop time.Duration
		took time.Duration
		late bool
		err  error
	}{
		"at once":     {func(context.Context) error { return nil }, time.Hour, 0, false, nil},
		"it fails":    {func(context.Context) error { return failed }, time.Hour, 0, false, failed},
		"without end": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, time.Hour, 10 * time.Second, true, nil},
		"interrupted": {func(ctx context.Context) error { <-ctx.Done(); return failed }, time.Second, time.Second, false, failed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.stop)
				defer cancel()
				began := time.Now()
				late, err := within(ctx, 10*time.Second, c.do)
				if late != c.late || !errors.Is(err, c.err) || time.Since(began) != c.took {
					t.Errorf("late %v, error %v after %s, want %v, %v after %s", late, err, time.Since(began), c.late, c.err, c.took)
				}
			})
		})
	}
}
