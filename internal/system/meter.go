package system

import (
	"context"
	"errors"
)

// ErrTooLarge is wrapped by errors of Observe that say that the system's answers need more memory than the policy's namespace, or all
// policies together, may have.
var ErrTooLarge = errors.New("too large")

// Meter counts the memory of one observation while it is made. Its methods may be called by several goroutines at once.
type Meter interface {
	// Take asks for so many bytes more; an error wraps ErrTooLarge and is a sentence. What was taken is given back when the
	// observation has ended.
	Take(bytes int64) error
}

type meterKey struct{}

// WithMeter returns a context in which Take counts.
func WithMeter(ctx context.Context, meter Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, meter)
}

// Take asks the context's meter, if it has one, for memory before it is used: for the bytes of an answer as they are read, and for
// what is made of them.
func Take(ctx context.Context, bytes int64) error {
	if meter, ok := ctx.Value(meterKey{}).(Meter); ok {
		return meter.Take(bytes)
	}
	return nil
}
