package policycache

import (
	"reflect"
	"sync"
	"time"

	"usher.sh/usher/internal/eviction"
)

const (
	// failureAge is how long a failure is believed: a system that refuses at once is not asked in a hot loop.
	failureAge = time.Second
	// idleRefresh and the policy's maxAge/2 are how often a system is asked in the background, the latter for as long as
	// interest after it was asked for.
	idleRefresh = 30 * time.Second
	interest    = time.Minute
)

// entry is what is kept for one source.
type entry struct {
	connection connection // locks by itself

	mu       sync.Mutex
	source   *Source   // the newest that was shown
	shown    time.Time // when it was shown last
	tracked  bool
	gone     bool               // forgotten: what still comes in is dropped
	asked    time.Time          // when it was asked for last
	inflight *observation       // the newest observation, while it is under way
	last     *eviction.Evidence // the newest that ended
	counted  *meter             // what last takes of the budget
	need     int64              // how much memory an observation took
	needed   time.Time          // when it did
	lasts    version            // what its observer knew of the policy
	sent     time.Time          // when it began
	ended    time.Time          // when it did
	outdated time.Time          // when a member's pod was last seen to have ended: what was observed before decides nothing
}

// show replaces the source by a newer version. Two informers may see versions in any order; generation and epoch only grow.
func (e *entry) show(source *Source) {
	e.mu.Lock()
	defer e.mu.Unlock()
	older := source.Generation < e.source.Generation || source.Epoch < e.source.Epoch
	if older && time.Since(e.shown) < showLife {
		return
	}
	if older {
		e.forget() // what was observed by the version that was lost
	}
	if source.Generation != e.source.Generation {
		e.need = 0 // it may ask its system for less
	}
	e.source, e.shown = source, time.Now()
}

// oldest returns when an observation that decides must have begun at the earliest, beside the limit of its age.
func (e *entry) oldest(limit time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.outdated.After(limit) {
		return e.outdated
	}
	return limit
}

// showLife is how long a version counts that is not shown any more while older ones are: it was lost when the cluster's etcd was
// restored.
const showLife = time.Minute

// needs is how much memory an observation is known to take; 0: not known any more. The caller holds mu.
func (e *entry) needs(now time.Time) int64 {
	if now.Sub(e.needed) > needLife {
		return 0
	}
	return e.need
}

// measure notes how much memory an observation took. One that was refused shows the least that it takes, which is no news where more
// is known. The caller holds mu.
func (e *entry) measure(f *observation, peak int64, now time.Time) {
	refused := f.result.TooLarge
	if f.result.Error != "" && !refused || refused && peak <= e.need && now.Sub(e.needed) <= needLife {
		return
	}
	e.need, e.needed = peak, now
}

// release drops the evidence whose memory was taken back.
func (e *entry) release(m *meter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counted == m {
		e.last, e.counted = nil, nil
	}
}

// forget drops the newest evidence. The caller holds mu.
func (e *entry) forget() {
	if e.counted != nil {
		_ = e.counted.settle(0) // nothing is kept, so nothing can be refused
	}
	e.last, e.counted = nil, nil
}

func (e *entry) newest() *Source {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.source
}

// touch notes that the evidence is asked for, and reports whether it was not for a while.
func (e *entry) touch(now time.Time) (news bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	news = now.Sub(e.asked) > interest
	e.asked = now
	return news
}

// version is what an observer knew of a source before it began: the spec by which it asked, and the members that had been let go.
type version struct{ generation, epoch int64 }

func (v version) covers(wanted version) bool {
	return v.generation >= wanted.generation && v.epoch >= wanted.epoch
}

// known returns evidence that needs no asking, or nil. A failure permits nothing, so its epoch does not matter; that of
// another spec says nothing about this one.
func (e *entry) known(wanted version, oldest, now time.Time) *eviction.Evidence {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.last == nil || e.lasts.generation < wanted.generation:
		return nil
	case e.last.Error != "":
		if now.Sub(e.ended) < failureAge {
			return e.last
		}
		return nil
	case !e.lasts.covers(wanted) || e.sent.Before(oldest):
		return nil
	}
	return e.last
}

// complete takes in what an observation has brought, and reports whether that is news, and whose memory is free now. One that was
// overtaken by another is dropped.
func (e *entry) complete(f *observation, counted *meter, now time.Time) (news bool, dropped *meter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inflight != f || e.gone {
		return false, counted
	}
	e.measure(f, counted.peak(), now)
	news = e.last == nil || e.lasts.generation < f.version.generation || !equal(e.last, f.result) // what was said by another spec did not count
	e.forget()
	e.inflight, e.lasts, e.sent, e.ended = nil, f.version, f.sent, now
	if f.result.Error == "" && !counted.keep() {
		return news, counted
	}
	e.last, e.counted = f.result, counted
	return news, nil
}

// equal reports whether two observations say the same. The epoch counts: what was true before a member left decides
// nothing after.
func equal(a, b *eviction.Evidence) bool {
	return a.Epoch == b.Epoch && a.Error == b.Error && a.Summary == b.Summary && reflect.DeepEqual(a.System, b.System) &&
		reflect.DeepEqual(a.Members, b.Members) && reflect.DeepEqual(a.Shared, b.Shared)
}

// close ends the observation that is under way and lets go of the connection. It does not wait: an informer calls it,
// and the holder of the connection may be waiting for a Secret or for a system.
func (e *entry) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone = true
	e.forget()
	if e.inflight != nil {
		e.inflight.cancel()
	}
	go e.connection.close()
}

// count counts an observation, unless its source is gone: nothing would take the figures away again.
func (e *entry) count(f *observation, source *Source, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.gone {
		count(source, f.result, now)
	}
}
