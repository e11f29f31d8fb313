package defaultresponder

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/evictionrequest"
)

// attempts is the back-off of evictions whose turn it is here.
type attempts struct {
	mu sync.Mutex
	by map[reconcile.Request]evictionrequest.Attempts
}

func newAttempts() *attempts { return &attempts{by: map[reconcile.Request]evictionrequest.Attempts{}} }

func (a *attempts) of(key reconcile.Request) evictionrequest.Attempts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.by[key]
}

func (a *attempts) refused(key reconcile.Request, answer answers.Answer, now time.Time) evictionrequest.Attempts {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by[key] = a.by[key].Refused(answer.Message, answer.RetryAfter, now)
	return a.by[key]
}

// accepted ends the back-off.
func (a *attempts) accepted(key reconcile.Request, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by[key] = evictionrequest.Attempts{Accepted: now}
}

func (a *attempts) forget(key reconcile.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.by, key)
}
