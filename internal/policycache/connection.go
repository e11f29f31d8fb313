package policycache

import (
	"context"
	"errors"
	"sync"
	"time"

	"usher.sh/usher/internal/system"
)

// secretsAge is how long Secrets are believed not to have changed while the system answers. They are read one by one:
// to watch them Usher would have to be allowed to list all Secrets of the cluster.
const secretsAge = time.Minute

// connection is the connection to one system.
type connection struct {
	mu         sync.Mutex
	closed     bool
	system     system.System
	generation int64  // of the source that it was made from
	secrets    string // their resource versions
	read       time.Time
}

// connect returns the source's system, opened anew if the source or its Secrets have changed.
func (k *Observer) connect(ctx context.Context, e *entry) (system.System, error) {
	source := e.newest()
	l := &e.connection
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.system != nil && l.generation == source.Generation && now.Sub(l.read) < secretsAge {
		return l.system, nil
	}
	kind, ok := k.config.Kind(source.System)
	if !ok {
		return nil, errors.New("spec.system declares no system, or none that this version of Usher knows")
	}
	access, versions, err := k.access(ctx, source, kind.ReferencesOf(source.System))
	if err != nil {
		return nil, err
	}
	if l.system != nil && l.generation == source.Generation && l.secrets == versions {
		l.read = now
		return l.system, nil
	}
	opened, err := kind.Open(source.System, access)
	if err != nil {
		return nil, err
	}
	if l.system != nil {
		if resumer, ok := opened.(system.Resumer); ok {
			resumer.Resume(l.system)
		}
		l.system.Close()
	}
	l.system, l.generation, l.secrets, l.read = opened, source.Generation, versions, now
	if l.closed {
		opened.Close()
	}
	return opened, nil
}

// invalidate makes the next use read the Secrets again: a password that was changed shows as a failure first.
func (l *connection) invalidate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = time.Time{}
}

func (l *connection) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.system != nil {
		l.system.Close()
	}
}
