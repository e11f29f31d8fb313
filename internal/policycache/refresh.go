package policycache

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Run asks the systems of all tracked policies in the background until ctx ends, then lets go of all connections.
func (k *Observer) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			k.closeAll()
			return nil
		case <-k.changed:
		case <-timer.C:
		}
		timer.Reset(k.refresh(ctx))
	}
}

// refresh begins what is due and returns how long nothing else will be.
func (k *Observer) refresh(ctx context.Context) time.Duration {
	now := time.Now()
	wait := idleRefresh
	for uid, e := range k.all() {
		if e.abandoned(now) {
			k.Forget(uid)
			continue
		}
		if e.newest().Members == nil {
			continue
		}
		due := e.due(now)
		if due <= 0 {
			k.shareOrStart(ctx, e, e.newest().version())
			due = e.interval(now)
		}
		wait = min(wait, due)
	}
	return max(wait, failureAge/4)
}

func (k *Observer) all() map[types.UID]*entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.entries)
}

func (k *Observer) closeAll() {
	for uid := range k.all() {
		k.Forget(uid)
	}
}

// abandoned reports whether the entry was made for a policy that is not tracked, and is not asked for
// any more.
func (e *entry) abandoned(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.tracked && now.Sub(e.asked) > interest
}

// due returns how long it is until the system is asked again; 0 or less: now. What was observed by another spec is as good
// as nothing, and so is, while it is asked for, what was observed before the last member left.
func (e *entry) due(now time.Time) time.Duration {
	interval := e.interval(now)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.inflight != nil && e.inflight.version.generation >= e.source.Generation:
		return interval
	case e.inflight != nil, e.last == nil, e.lasts.generation < e.source.Generation:
		return 0
	case e.last.Error != "":
		return e.ended.Add(min(interval, defaultTimeout)).Sub(now)
	case e.lasts.epoch < e.source.Epoch && interval < idleRefresh:
		return 0
	}
	return e.sent.Add(interval).Sub(now)
}

func (e *entry) interval(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.asked) > interest {
		return idleRefresh
	}
	return min(idleRefresh, e.source.MaxAge()/2)
}
