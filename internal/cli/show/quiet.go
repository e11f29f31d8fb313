package show

import (
	"io"
	"sync/atomic"
)

// Quiet writes until a write fails, and from then on accepts everything in silence:
// a reader that went away must not leave a drain half done.
type Quiet struct {
	Out    io.Writer
	failed atomic.Bool
}

// Write never fails.
func (q *Quiet) Write(p []byte) (int, error) {
	if !q.failed.Load() {
		if _, err := q.Out.Write(p); err != nil {
			q.failed.Store(true)
		}
	}
	return len(p), nil
}
