package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Plain reports one event a line: time, kind, subject, words that stay the same
// from version to version, then words for people.
type Plain struct {
	out  io.Writer
	held map[heldKey]bool // blockers that were printed, and whether as dead
}

type heldKey struct {
	pod    snapshot.Key
	node   string
	reason drain.Reason
}

// NewPlain reports to out.
func NewPlain(out io.Writer) *Plain { return &Plain{out: out, held: map[heldKey]bool{}} }

// Frame prints nothing: events tell it all.
func (p *Plain) Frame(time.Time, drain.Decision) {}

// Event prints one line. A blocker whose numbers changed is not printed again: a
// budget of many pods would fill the log with every pod that becomes ready. That a
// pod shuts down is said by its state.
func (p *Plain) Event(e drain.Event) {
	if e.Blocker != nil && (e.Blocker.Reason == drain.Leaving || p.known(e)) {
		return
	}
	fmt.Fprintln(p.out, EventLine(e)) //nolint:errcheck // a drain goes on without its output
}

func (p *Plain) known(e drain.Event) bool {
	key := heldKey{e.Blocker.Pod, e.Blocker.Node, e.Blocker.Reason}
	if e.Kind == drain.EventCleared {
		delete(p.held, key)
		return false
	}
	dead, seen := p.held[key]
	p.held[key] = e.Blocker.Dead
	return seen && dead == e.Blocker.Dead
}

// EventLine is an event on one line.
func EventLine(e drain.Event) string {
	words := []string{stamp(e.At), string(e.Kind)}
	if subject := eventSubject(e); subject != "" {
		words = append(words, subject)
	}
	if e.State != "" {
		words = append(words, e.State)
	}
	if e.Blocker != nil {
		words = append(words, blockerWords(e))
	}
	if e.Outcome != drain.Running {
		words = append(words, string(e.Outcome))
	}
	if e.Message != "" {
		words = append(words, clean(e.Message))
	}
	return strings.Join(words, " ")
}

func eventSubject(e drain.Event) string {
	switch {
	case e.Pod.Name != "":
		return e.Pod.String()
	case e.Blocker != nil && e.Blocker.Pod.Name != "":
		return e.Blocker.Pod.String()
	case e.Node != "":
		return e.Node
	case e.Blocker != nil:
		return e.Blocker.Node
	}
	return ""
}

func blockerWords(e drain.Event) string {
	b := e.Blocker
	if e.Kind == drain.EventCleared {
		return string(b.Reason)
	}
	text := string(b.Reason)
	if b.Dead {
		text += " (cannot clear by itself)"
	}
	text += ": " + clean(b.Message)
	if b.WayOut != "" {
		text += "; way out: " + clean(b.WayOut)
	}
	return text
}
