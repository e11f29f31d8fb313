package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// limit is when a command's time is over. The zero value is never.
type limit struct{ at time.Time }

// limitOf begins to count a timeout; 0 is none.
func limitOf(timeout time.Duration) limit {
	if timeout <= 0 {
		return limit{}
	}
	return limit{time.Now().Add(timeout)}
}

// context returns one that ends with the command's time, for what comes before the drain.
func (l limit) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.at.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, l.at)
}

// run does what a command does that follows something: before is what precedes the following, which ends with the command's time, and with an
// error then.
func (l limit) run(ctx context.Context, errOut io.Writer, timeout time.Duration, do func(ctx, before context.Context) error) error {
	before, begun := l.context(ctx)
	defer begun()
	err := do(ctx, before)
	if err != nil && l.over(before) && !errors.As(err, new(exit)) {
		fmt.Fprintf(errOut, "timed out after %s (--timeout): %v\n", timeout, err)
		return exitWith(exitLate)
	}
	return err
}

// follow returns a context for the following: it ends with the command's time, on a signal, and by stop with its cause; the second signal ends
// the process at once.
func (l limit) follow(parent context.Context) (ctx context.Context, stop context.CancelCauseFunc, done func()) {
	ctx, stop = context.WithCancelCause(parent)
	ctx, given := interruptible(ctx, func() { stop(errStopped) }, func() { os.Exit(exitInterrupted) })
	timer := time.AfterFunc(1<<62, func() {})
	if !l.at.IsZero() {
		timer = time.AfterFunc(time.Until(l.at), func() { stop(errLate) })
	}
	return ctx, stop, func() {
		timer.Stop()
		given()
		stop(nil)
	}
}

// over reports whether it was the limit that ended the context.
func (l limit) over(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded)
}
