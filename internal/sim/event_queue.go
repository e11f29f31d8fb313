package sim

import "time"

// event is something that will happen. Events of one moment happen in the order in
// which they were entered.
type event struct {
	at  time.Time
	seq uint64
	do  func()
}

type eventQueue struct {
	heap[event]
	seq uint64
}

func newEventQueue() eventQueue {
	return eventQueue{heap: heap[event]{less: func(a, b *event) bool {
		if !a.at.Equal(b.at) {
			return a.at.Before(b.at)
		}
		return a.seq < b.seq
	}}}
}

// after enters an event. With a tick, times fall on the nearest whole tick, but
// nothing that takes time takes none.
func (s *Sim) after(delay time.Duration, do func()) {
	at := s.now.Add(delay)
	if tick := s.cfg.Tick; tick > 0 && delay > 0 {
		since := at.Sub(s.start).Round(tick)
		at = s.start.Add(since)
		if !at.After(s.now) {
			at = at.Add(tick)
		}
	}
	s.events.seq++
	s.events.push(event{at: at, seq: s.events.seq, do: do})
}

// Next returns when the next thing happens, and whether anything will.
func (s *Sim) Next() (time.Time, bool) {
	next, some := s.watch.next()
	if len(s.events.items) > 0 {
		if at := s.events.items[0].at; !some || at.Before(next) {
			next, some = at, true
		}
	}
	if some && next.Before(s.now) {
		next = s.now
	}
	return next, some
}

// Advance lets everything happen up to a moment and at it; a moment that has passed
// lets happen what is due now.
func (s *Sim) Advance(to time.Time) {
	for len(s.events.items) > 0 && !s.events.items[0].at.After(to) {
		next := s.events.pop()
		if next.at.After(s.now) {
			s.now = next.at
		}
		next.do()
	}
	if to.After(s.now) {
		s.now = to
	}
	s.watch.show(s.seen, s.now)
	s.oracle.settleIn(s.truth, s.seen)
	s.oracle.lookForBack(s.now, s.seen)
}
