package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// EventKind says what happened.
type EventKind string

// The kinds of event.
const (
	EventNode     EventKind = "node"     // a node changed its state: State
	EventPod      EventKind = "pod"      // a pod changed its state: State
	EventBlocked  EventKind = "blocked"  // a blocker appeared or its words changed: Blocker
	EventCleared  EventKind = "cleared"  // a blocker went: Blocker
	EventSurge    EventKind = "surge"    // something was scaled: Message
	EventNote     EventKind = "note"     // something to know: Message
	EventAnswer   EventKind = "answer"   // a write was refused: Message
	EventDeadline EventKind = "deadline" // a step of the schedule began: Message
	EventEnd      EventKind = "end"      // the drain ended: Outcome
)

// Event is one thing that happened in a drain, for people and for -o json.
type Event struct {
	At      time.Time
	Kind    EventKind
	Node    string
	Pod     snapshot.Key
	State   string
	Message string
	Blocker *Blocker
	Outcome Outcome
}

// Events returns what happened between two decisions, in a stable order.
func Events(before, after Decision, now time.Time) []Event {
	var events []Event
	events = append(events, nodeEvents(before, after)...)
	events = append(events, podEvents(before, after)...)
	events = append(events, blockerEvents(before.Blockers(), after.Blockers())...)
	for _, note := range after.Notes {
		if !slices.Contains(before.Notes, note) {
			events = append(events, Event{Kind: EventNote, Message: note})
		}
	}
	if after.Phase != "" && after.Phase != before.Phase {
		events = append(events, Event{Kind: EventDeadline, Message: after.Phase})
	}
	if before.Outcome == Running && after.Outcome != Running {
		events = append(events, Event{Kind: EventEnd, Outcome: after.Outcome})
	}
	for i := range events {
		events[i].At = now
	}
	return events
}

func nodeEvents(before, after Decision) []Event {
	former := map[string]NodeState{}
	for _, n := range before.Nodes {
		former[n.Name] = n.State
	}
	var events []Event
	for _, n := range after.Nodes {
		if former[n.Name] != n.State {
			events = append(events, Event{Kind: EventNode, Node: n.Name, State: string(n.State)})
		}
	}
	return events
}

func podEvents(before, after Decision) []Event {
	former := map[types.UID]PodState{}
	for i := range before.Pods {
		former[before.Pods[i].Pod.UID] = before.Pods[i].State
	}
	var events []Event
	for i := range after.Pods {
		s := &after.Pods[i]
		if former[s.Pod.UID] != s.State {
			events = append(events, Event{Kind: EventPod, Node: s.Pod.Node, Pod: s.Pod.Key(), State: string(s.State), Message: s.Note})
		}
	}
	return events
}

type blockerKey struct {
	pod     types.NamespacedName
	node    string
	reason  Reason
	message string
}

// keyOf identifies a blocker by its words, without the numbers that only count time.
func keyOf(b *Blocker) blockerKey {
	message := b.Message
	if b.Reason == Leaving || b.Reason == OverdueOnNode || b.Reason == AnotherDrain || b.Reason == EarlierWave {
		message = ""
	}
	return blockerKey{b.Pod, b.Node, b.Reason, strings.TrimSpace(message)}
}

func blockerEvents(before, after []Blocker) []Event {
	former, present := keys(before), keys(after)
	var events []Event
	for i := range after {
		if b := &after[i]; !ordinary(b) && !former[keyOf(b)] {
			events = append(events, Event{Kind: EventBlocked, Node: b.Node, Pod: b.Pod, Message: b.Message, Blocker: b})
		}
	}
	for i := range before {
		if b := &before[i]; !ordinary(b) && !present[keyOf(b)] && !sameReason(after, b) {
			events = append(events, Event{Kind: EventCleared, Node: b.Node, Pod: b.Pod, Message: b.Message, Blocker: b})
		}
	}
	return events
}

// ordinary reports whether the blocker is a step that every pod takes, which its
// state says already.
func ordinary(b *Blocker) bool { return b.Reason == Leaving }

func keys(blockers []Blocker) map[blockerKey]bool {
	set := make(map[blockerKey]bool, len(blockers))
	for i := range blockers {
		set[keyOf(&blockers[i])] = true
	}
	return set
}

func sameReason(blockers []Blocker, b *Blocker) bool {
	return slices.ContainsFunc(blockers, func(other Blocker) bool {
		return other.Pod == b.Pod && other.Node == b.Node && other.Reason == b.Reason
	})
}

// AnswerEvent says what came of a write, where that is worth a line: what was scaled,
// and what was refused.
func AnswerEvent(a Action, answer answers.Answer) (Event, bool) {
	e := Event{Kind: EventAnswer, Message: string(a.Kind) + " refused: " + answer.Message}
	switch a.Kind {
	case Scale:
		return scaleEvent(a, answer, a.Workload.Key().String(), "to "+text.Count(a.Replicas, "replica"))
	case ScaleMin:
		return scaleEvent(a, answer, "autoscaler "+a.Autoscaler.Key().String(), "to at least "+text.Count(a.Replicas, "replica"))
	case Cordon, Mark, Uncordon, Unmark:
		e.Node = a.Node.Name
		return e, answer.Code != answers.Accepted && answer.Code != answers.Conflict
	case Evict, Delete, LowerCost, RestoreCost, Ask:
		e.Pod, e.Node = a.Pod.Key(), a.Pod.Node
	case RenewLease:
		return e, answer.Code == answers.Denied || answer.Code == answers.Unavailable // a note says what is refused for good
	case Withdraw, DeleteLease:
	}
	return e, answer.Code == answers.Denied || answer.Code == answers.Forbidden || answer.Code == answers.Unavailable
}

func scaleEvent(a Action, answer answers.Answer, what, to string) (Event, bool) {
	how := scaled(a.before(), a.Replicas) + " " + to
	if answer.Code == answers.Accepted {
		return Event{Kind: EventSurge, Message: fmt.Sprintf("%s %s: %s", what, how, a.Why)}, a.Replicas != a.before()
	}
	return Event{Kind: EventAnswer, Message: fmt.Sprintf("%s is not %s: %s", what, how, answer.Message)}, answer.Code != answers.Conflict
}

func scaled(from, to int32) string {
	if to < from {
		return "scaled down"
	}
	return "scaled up"
}

// before returns the number that a scaling changes.
func (a Action) before() int32 {
	if a.Kind == ScaleMin {
		return a.Autoscaler.Min
	}
	return a.Workload.Replicas
}
