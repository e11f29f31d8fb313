// Package runner answers: what carries a drain out? It runs the loop: observe,
// decide, act, enter the answers, until the decision is settled. It decides nothing.
package runner

import (
	"context"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Source is the port for reads of the cluster. Read is called from several goroutines
// at once.
type Source interface {
	// Read calls f with the present state. f must not keep or change the cluster;
	// the facts in it may be kept.
	Read(f func(snapshot.View))
	// Changed receives after something changed. Changes are coalesced: it has a
	// capacity of one.
	Changed() <-chan struct{}
}

// Writer is the port for writes to the cluster. Do is called from several
// goroutines at once.
type Writer interface {
	Do(ctx context.Context, action drain.Action) answers.Answer
}

// Reporter shows a drain. It is called from one goroutine.
type Reporter interface {
	// Frame is called after every decision: the whole state.
	Frame(now time.Time, d drain.Decision)
	// Event is called for each thing that happened.
	Event(e drain.Event)
}
