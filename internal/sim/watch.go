package sim

import (
	"math/rand/v2"
	"time"

	"usher.sh/usher/internal/snapshot"
)

// channel is one watch: changes of one kind of object arrive in order.
type channel int

const (
	podChannel channel = iota
	nodeChannel
	budgetChannel
	workloadChannel
	requestChannel
	leaseChannel
	channels
)

type change struct {
	due  time.Time
	show func(*snapshot.Cluster)
}

// watch brings what is true to the drain, late.
type watch struct {
	most    [channels]time.Duration
	waiting [channels][]change
	dice    *rand.Rand
	direct  bool // no lag at all: truth and view are one
}

func newWatch(lag Lag, dice *rand.Rand) *watch {
	w := &watch{dice: dice, direct: lag == Lag{}}
	w.most[podChannel], w.most[nodeChannel] = lag.Pods, lag.Nodes
	w.most[budgetChannel], w.most[workloadChannel] = lag.Budgets, lag.Workloads
	w.most[requestChannel], w.most[leaseChannel] = lag.Requests, lag.Leases
	return w
}

// send enters a change that was made at now.
func (w *watch) send(on channel, now time.Time, show func(*snapshot.Cluster)) {
	due := now
	if w.most[on] > 0 {
		due = now.Add(time.Duration(w.dice.Int64N(int64(w.most[on]) + 1)))
	}
	if n := len(w.waiting[on]); n > 0 && w.waiting[on][n-1].due.After(due) {
		due = w.waiting[on][n-1].due
	}
	w.waiting[on] = append(w.waiting[on], change{due, show})
}

// show makes everything visible that is due.
func (w *watch) show(seen *snapshot.Cluster, now time.Time) {
	for on := range w.waiting {
		shown := 0
		for _, c := range w.waiting[on] {
			if c.due.After(now) {
				break
			}
			c.show(seen)
			shown++
		}
		w.waiting[on] = w.waiting[on][shown:]
	}
}

// Relist shows everything that is true: a new observer starts from a fresh list.
func (s *Sim) Relist() {
	for on := range s.watch.waiting {
		for _, c := range s.watch.waiting[on] {
			c.show(s.seen)
		}
		s.watch.waiting[on] = nil
	}
}

func (w *watch) next() (next time.Time, some bool) {
	for on := range w.waiting {
		if len(w.waiting[on]) == 0 {
			continue
		}
		if due := w.waiting[on][0].due; !some || due.Before(next) {
			next, some = due, true
		}
	}
	return next, some
}
