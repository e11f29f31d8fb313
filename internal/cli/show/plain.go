package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Plain reports one event a line: time, kind, subject, words that stay the same
// from version to version, then words for people. Pods that one thing blocks at one
// moment share a line.
type Plain struct {
	out     io.Writer
	held    map[heldKey]printed
	blocked []drain.Event // since the last frame
}

type heldKey struct {
	pod    snapshot.Key
	node   string
	reason drain.Reason
}

// printed is what was printed of a blocker.
type printed struct {
	dead   bool
	causes []string // its words without numbers, each once
}

// mostCauses is how many causes of one blocker are printed: those that take turns, or name other pods each time, do not fill a log.
const mostCauses = 10

// NewPlain reports to out.
func NewPlain(out io.Writer) *Plain { return &Plain{out: out, held: map[heldKey]printed{}} }

// Event prints what happened, and keeps blockers for the frame that follows. That a
// pod waits is not printed: what it waits for is.
func (p *Plain) Event(e drain.Event) {
	switch {
	case e.Blocker != nil:
		p.blocker(e)
	case e.Kind == drain.EventEnd: // End prints it: what the drain has changed is undone before
	case e.Kind == drain.EventPod && e.State == string(drain.Waiting):
	default:
		p.print(eventLine(e))
	}
}

// End prints the last event of a drain.
func (p *Plain) End(at time.Time, outcome drain.Outcome) {
	p.print(eventLine(drain.Event{At: at, Kind: drain.EventEnd, Outcome: outcome}))
}

// blocker keeps a blocker that is new or has a new cause. One whose numbers changed has not: a budget of many pods would fill the log with
// every pod that becomes ready. That a pod shuts down is said by its state.
func (p *Plain) blocker(e drain.Event) {
	key := heldKey{e.Blocker.Pod, e.Blocker.Node, e.Blocker.Reason}
	if e.Kind == drain.EventCleared {
		delete(p.held, key)
		return
	}
	last, seen := p.held[key]
	cause := withoutNumbers(e.Blocker.Message)
	known := slices.Contains(last.causes, cause) || len(last.causes) == mostCauses
	if !known {
		last.causes = append(last.causes, cause)
	}
	if e.Blocker.Reason != drain.Leaving && (!seen || !known || last.dead != e.Blocker.Dead) {
		p.blocked = append(p.blocked, e)
	}
	last.dead = e.Blocker.Dead
	p.held[key] = last
}

// withoutNumbers takes the words out of a text that begin with a digit: counts and times.
func withoutNumbers(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("(),;:/", r) })
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word[0] >= '0' && word[0] <= '9' }), " ")
}

// Frame prints the blockers that appeared since the last frame.
func (p *Plain) Frame(time.Time, drain.Decision) {
	for len(p.blocked) > 0 {
		words := blockerWords(p.blocked[0])
		var who []string
		rest := p.blocked[:0:0]
		for _, e := range p.blocked {
			if blockerWords(e) != words {
				rest = append(rest, e)
				continue
			}
			if name := eventSubject(e); !slices.Contains(who, name) {
				who = append(who, name)
			}
		}
		p.print(blockedLine(p.blocked[0], who, words))
		p.blocked = rest
	}
}

func blockedLine(e drain.Event, who []string, words string) string {
	if len(who) == 1 {
		return eventLine(e)
	}
	return fmt.Sprintf("%s %s %s %s: %s", stamp(e.At), e.Kind, Count(len(who), "pod"), words, strings.Join(who, " "))
}

func (p *Plain) print(line string) {
	fmt.Fprintln(p.out, line)
}

// eventLine is an event on one line.
func eventLine(e drain.Event) string {
	words := []string{stamp(e.At), string(e.Kind)}
	if subject := eventSubject(e); subject != "" {
		words = append(words, subject)
	}
	if e.State != "" {
		words = append(words, e.State)
	}
	switch {
	case e.Blocker != nil:
		words = append(words, blockerWords(e))
	case e.Message != "" && e.Message != e.State:
		words = append(words, clean(e.Message))
	}
	if e.Outcome != drain.Running {
		words = append(words, string(e.Outcome))
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
	text := string(b.Reason)
	if e.Kind == drain.EventCleared {
		return text
	}
	if b.Dead {
		text += " (cannot clear by itself)"
	}
	text += ": " + clean(b.Message)
	if b.Remedy != "" && b.Remedy != "wait" {
		text += "; remedy: " + clean(b.Remedy)
	}
	return text
}
