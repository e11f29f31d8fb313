package responder

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"usher.sh/usher/internal/snapshot"
)

// The pause after a refused eviction, doubled each time. A process that was restarted begins anew.
const (
	firstPause = 5 * time.Second
	lastPause  = time.Minute
)

// attempts remembers what the eviction API has answered for pods: how often it has refused in a row, and what it has accepted.
type attempts struct {
	refused  workqueue.TypedRateLimiter[snapshot.Key]
	mu       sync.Mutex
	accepted map[snapshot.Key]acceptance
}

type acceptance struct {
	uid types.UID
	at  time.Time
}

func newAttempts() *attempts {
	return &attempts{
		refused:  workqueue.NewTypedItemExponentialFailureRateLimiter[snapshot.Key](firstPause, lastPause),
		accepted: map[snapshot.Key]acceptance{},
	}
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
func (a *attempts) pause(pod snapshot.Key) time.Duration { return a.refused.When(pod) }

func (a *attempts) forget(pod snapshot.Key) {
	a.refused.Forget(pod)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.accepted, pod)
}
