package responder

import (
	"sync"
	"time"

	"usher.sh/usher/internal/snapshot"
)

// The pause after a refused eviction, doubled each time. A process that was restarted begins anew.
const (
	firstPause = 5 * time.Second
	lastPause  = time.Minute
)

// attempts counts refusals in a row.
type attempts struct {
	mu     sync.Mutex
	pauses map[snapshot.Key]time.Duration
}

func newAttempts() *attempts { return &attempts{pauses: map[snapshot.Key]time.Duration{}} }

// pause returns how long to wait after one more refusal.
func (a *attempts) pause(pod snapshot.Key) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	pause := max(firstPause, a.pauses[pod])
	a.pauses[pod] = min(2*pause, lastPause)
	return pause
}

func (a *attempts) forget(pod snapshot.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.pauses, pod)
}
