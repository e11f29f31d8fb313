package show

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
)

// Quiet writes until a write fails, and from then on accepts everything in silence:
// a reader that went away must not leave a drain half done.
type Quiet struct {
	Out    io.Writer
	failed atomic.Pointer[error]
}

// Write never fails.
func (q *Quiet) Write(p []byte) (int, error) {
	if q.failed.Load() == nil {
		if _, err := q.Out.Write(p); err != nil {
			q.failed.Store(&err)
		}
	}
	return len(p), nil
}

// Err is why something was not written. A reader that went away has what it wanted.
func (q *Quiet) Err() error {
	if err := q.failed.Load(); err != nil && !errors.Is(*err, syscall.EPIPE) {
		return fmt.Errorf("writing the output: %w", *err)
	}
	return nil
}
