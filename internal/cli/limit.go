package cli

import (
	"context"
	"errors"
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

// over reports whether it was the limit that ended the context.
func (l limit) over(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded)
}
