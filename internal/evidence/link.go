package evidence

import (
	"context"
	"fmt"
	"sync"
	"time"

	"usher.sh/usher/internal/system"
)

// secretsAge is how long Secrets are believed not to have changed while the system answers. They are read one by one:
// to watch them Usher would have to be allowed to list all Secrets of the cluster.
const secretsAge = time.Minute

// link is the connection to one system.
type link struct {
	mu         sync.Mutex
	closed     bool
	system     system.System
	generation int64  // of the policy that it was made from
	secrets    string // their resource versions
	read       time.Time
}

// connect returns the policy's system, opened anew if the policy or its Secrets have changed.
func (k *Keeper) connect(ctx context.Context, e *entry) (system.System, error) {
	policy := e.newest()
	l := &e.link
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.system != nil && l.generation == policy.Generation && now.Sub(l.read) < secretsAge {
		return l.system, nil
	}
	kind, ok := k.config.Kind(policy.Spec.System.Kind())
	if !ok {
		return nil, fmt.Errorf("this version of Usher has no system %q", policy.Spec.System.Kind())
	}
	access, versions, err := k.access(ctx, policy)
	if err != nil {
		return nil, err
	}
	if l.system != nil && l.generation == policy.Generation && l.secrets == versions {
		l.read = now
		return l.system, nil
	}
	opened, err := kind.Open(&policy.Spec.System, access)
	if err != nil {
		return nil, err
	}
	if l.system != nil {
		l.system.Close()
	}
	l.system, l.generation, l.secrets, l.read = opened, policy.Generation, versions, now
	if l.closed {
		opened.Close()
	}
	return opened, nil
}

// doubt makes the next use read the Secrets again: a password that was changed shows as a failure first.
func (l *link) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = time.Time{}
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.system != nil {
		l.system.Close()
	}
}
