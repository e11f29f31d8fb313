package arangodb

import (
	"fmt"
	"sync"
	"time"

	"usher.sh/usher/internal/system/arangodb/agency"
)

// pause is how long an agent must have led, and how long ago an agent must have been restarted, before one is restarted. A
// request that has arrived has taken effect long before, and an agent elected anew is not taken for one that goes on leading.
const pause = 30 * time.Second

// leadership remembers which agent leads the agency since when, and when an agent was asked to restart. Both begin with the
// process, as if the one before had asked at that very moment: what it asked for may be pending.
type leadership struct {
	now func() time.Time

	mu     sync.Mutex
	leader string
	term   uint64
	since  time.Time
	asked  time.Time
}

func newReign(now func() time.Time) *leadership { return &leadership{now: now, asked: now()} }

// see notes which agent leads.
func (r *leadership) see(agents agency.Agents) {
	if agents.Problem != "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leader != agents.Leader || r.term != agents.Term {
		r.leader, r.term, r.since = agents.Leader, agents.Term, r.now()
	}
}

// settled reports whether everything that was asked for has taken effect or never will.
func (r *leadership) settled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now().Sub(r.asked) >= pause
}

// take reports whether the leader may be asked to restart now, and notes that it is. An error says what it waits for.
func (r *leadership) take() (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if now.Sub(r.asked) < pause {
		return false, nil // it is pending, or just done
	}
	if led := now.Sub(r.since); led < pause {
		return false, fmt.Errorf("it has led for %s only: it may have been restarted and elected again, so it is left alone until that is %s",
			led.Truncate(time.Second), pause)
	}
	r.asked = now
	return true, nil
}

// untake takes the note back: the request has certainly not arrived.
func (r *leadership) untake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = r.asked.Add(-pause)
}
