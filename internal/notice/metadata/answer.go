package metadata

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/text"
)

// Asked is what has to be known beside an answer to read it.
type Asked struct {
	// Node is the one whose machine has asked.
	Node string
	// Now is when the answer was given, by the clock of the service: it goes by no other.
	Now time.Time
}

// Answer is what a service has said.
type Answer struct {
	// Notices are the events that it names, by event. Those that it says are over are withdrawn.
	Notices []notice.Notice
	// Unread says why there may be more events than these; empty: there are not. What such an answer does not name may stand all the same.
	Unread string
}

// None is the answer of a service that knows of no event.
func None() Answer { return Answer{} }

const (
	// mostEvents is how many events one answer may have: a service that names more does not speak of one machine.
	mostEvents = 100
	// mostID is how long the id of an event may be, in bytes.
	mostID = 128
	// mostMessage is how much of what a service says for people is kept, in bytes.
	mostMessage = 256
	// mostQuoted is how much of an answer that is not understood is shown, in bytes.
	mostQuoted = 60
)

// decode reads JSON.
func decode[T any](body []byte, into *T) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s is not the JSON that was expected: %w", quote(body), err)
	}
	return nil
}

// quote shows the beginning of an answer on one line.
func quote(body []byte) string {
	return fmt.Sprintf("%q", text.Cut(text.Line(string(body)), mostQuoted))
}

// line is what a service says for people, on one line.
func line(s string) string { return text.Cut(text.Line(s), mostMessage) }

// usableID reports whether the id of an event can be kept and shown as it is.
func usableID(id string) bool { return id != "" && len(id) <= mostID && text.Printable(id) }

// once has each event be named once: the earliest time that is known counts, and where it both stands and is over, it stands.
func once(all []notice.Notice) []notice.Notice {
	slices.SortStableFunc(all, func(a, b notice.Notice) int { return cmp.Compare(a.Event, b.Event) })
	var out []notice.Notice
	for _, n := range all {
		if len(out) == 0 || out[len(out)-1].Event != n.Event {
			out = append(out, n)
			continue
		}
		last := &out[len(out)-1]
		effective := earliest(last.EffectiveTime, n.EffectiveTime)
		if last.Withdrawn && !n.Withdrawn {
			*last = n
		}
		last.EffectiveTime = effective
	}
	return out
}

// earliest returns the earlier of two times, of which zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
