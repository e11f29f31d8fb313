package notices

import (
	"context"
	"fmt"
	"time"

	"usher.sh/usher/internal/notice/metadata"
)

// errorPause is how long is waited after a question that was not answered. Each failure that follows doubles the pause, up to longestErrorPause:
// what is not answered may be the notice.
const (
	errorPause        = time.Second
	longestErrorPause = 10 * time.Second
)

// question is one that a metadata service is asked again and again.
type question struct {
	name string
	// ask asks once. It returns what stands, by the clock of the service.
	ask func(ctx context.Context) (metadata.Answer, error)
	// pause is between the beginnings of two questions: one that hangs until there is news is asked again at once.
	pause time.Duration
	// after is called with what was answered, unless it is nil: what is to be said to the service.
	after func(ctx context.Context)
}

// source is what questions to one service have in common.
type source struct {
	node    string
	client  *metadataClient
	board   *Board
	cluster func() time.Time // the time as the cluster has it
}

// asked is what has to be known to read an answer that came now.
func (s *source) asked() metadata.Asked {
	return metadata.Asked{Node: s.node, Now: s.client.clock.Now()}
}

// repeat asks until ctx ends.
func (s *source) repeat(ctx context.Context, q *question) {
	failures := 0
	for ctx.Err() == nil {
		began := time.Now()
		if err := s.once(ctx, q); err != nil {
			wait(ctx, backoff(failures))
			failures++
			continue
		}
		failures = 0
		wait(ctx, q.pause-time.Since(began))
	}
}

// once asks and enters the answer.
func (s *source) once(ctx context.Context, q *question) error {
	answer, err := q.ask(ctx)
	if err != nil {
		if ctx.Err() == nil { // or it was given up
			s.board.fail(q.name, err)
		}
		return err
	}
	s.board.enter(q.name, onClusterClock(answer, s.client.clock.Now(), s.cluster()))
	if answer.Unread != "" {
		s.board.fail(q.name, fmt.Errorf("not all of its answer can be read: %s", answer.Unread))
	}
	if q.after != nil {
		q.after(ctx)
	}
	return nil
}

// backoff is how long is waited after so many failures before this one.
func backoff(failures int) time.Duration {
	return min(errorPause<<min(failures, 10), longestErrorPause)
}

// wait waits so long, or until ctx ends.
func wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
