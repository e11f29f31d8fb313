package responder

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// The pause after a refused eviction, doubled each time. A process that was restarted begins anew.
const (
	firstPause = 5 * time.Second
	lastPause  = time.Minute
)

// attempts remembers what the eviction API has answered for pods: how often it has refused in a row, and what it has accepted.
type attempts struct {
	mu       sync.Mutex
	pauses   map[snapshot.Key]time.Duration
	accepted map[snapshot.Key]acceptance
}

type acceptance struct {
	uid types.UID
	at  time.Time
}

func newAttempts() *attempts {
	return &attempts{pauses: map[snapshot.Key]time.Duration{}, accepted: map[snapshot.Key]acceptance{}}
}

// accept notes that the eviction of a pod was accepted.
func (a *attempts) accept(pod snapshot.Key, uid types.UID, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.accepted[pod] = acceptance{uid: uid, at: at}
}

// acceptedAt is when the eviction of this pod was accepted, zero if it was not.
func (a *attempts) acceptedAt(pod snapshot.Key, uid types.UID) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.accepted[pod]; last.uid == uid {
		return last.at
	}
	return time.Time{}
}

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
	delete(a.accepted, pod)
}
