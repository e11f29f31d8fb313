package drain

import (
	"time"

	"usher.sh/usher/internal/snapshot"
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
