package runner

import (
	"slices"
	"sync"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

// Shared is what the runners of one process have in common: what they have sent that budgets do not show yet. Its zero value is ready.
// They decide one after the other, so that no two use the same room of a budget.
type Shared struct {
	mu      sync.Mutex
	charges drain.Charges
	members []*Runner
}

// join makes a runner one of those that share; the function that it returns ends that.
func (s *Shared) join(d *Runner) (part func()) {
	if s == nil {
		return func() {}
	}
	d.freed = make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.charges.Join(d.led)
	s.members = append(s.members, d)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.charges.Part(d.led, d.now)
		s.members = slices.DeleteFunc(s.members, func(other *Runner) bool { return other == d })
	}
}

// hold keeps the other runners from deciding until the function that it returns is called.
func (s *Shared) hold() (release func()) {
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	return s.mu.Unlock
}

// free has the other runners look again where no event shows them what to look at: that an eviction has used nothing, or which pods
// their surges are to replace as well. The caller holds the lock.
func (s *Shared) free(d *Runner) {
	if s == nil {
		return
	}
	if changed := d.led.SharedChanged(); !changed && !slices.ContainsFunc(d.answered, usedNothing) {
		return
	}
	for _, other := range s.members {
		if other == d {
			continue
		}
		select {
		case other.freed <- struct{}{}:
		default:
		}
	}
}

func usedNothing(a answered) bool {
	return (a.action.Kind == drain.Evict || a.action.HoldExpired != "") && a.answer.Code != answers.Accepted && a.answer.Code != answers.Unavailable
}

// shareNothing takes back what a runner that is being left offers to the surges of others.
func (s *Shared) shareNothing(d *Runner) {
	defer s.hold()()
	d.led.ShareNothing()
	s.free(d)
}

// decide is one decision, entered in the ledger before another runner decides. While the view is not whole there is nothing to enter.
func (d *Runner) decide(by decider) (decision drain.Decision, whole bool) {
	release := d.Shared.hold()
	defer release()
	decision, whole = d.look(by)
	if !whole {
		return decision, false
	}
	d.Shared.free(d)
	for _, a := range decision.Actions {
		d.led.Begin(a, d.now)
	}
	return decision, true
}
