package sim

import (
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Waiting is the outcome of a drain that does not end: nothing more happens by itself, or
// not within a day. Its blockers say what it waits for.
const Waiting drain.Outcome = "waiting"

// Plan is how a drain would go. Times count from its start.
type Plan struct {
	Outcome   drain.Outcome // how the drain ends, or Waiting
	Duration  time.Duration // until the drain ends, or until nothing more happens
	Recovered time.Duration // until every replacement is ready that ever will be
	Tick      time.Duration // precision of all times
	Steps     []Step        // what the drain does, in order
	Waves     []Wave        // when pods leave, by the wave of their node
	Budgets   []BudgetUse   // sorted by namespace and name
	Surges    []Surge       // sorted by start
	Blockers  []drain.Blocker
	Left      []Left // pods that would still be on the nodes, and replacements without a node
	Notes     []string
	Unknown   []string // what the forecast had to assume
	Pods      int      // pods that leave, by eviction, deletion or a scaling down
	Requests  int      // writes that the drain sends
}

// Step is what the drain does at one moment: one kind of action on some pods, or on
// one object.
type Step struct {
	At       time.Duration
	Kind     drain.Kind
	Pods     []*snapshot.Pod // evictions, deletions and costs: sorted
	Nodes    []string        // cordons and the like: sorted
	Target   string          // scalings: "Deployment shop/web"
	Replicas int32           // scalings
	Why      string

	leave int // pods that leave by it
}

// Wave is a round of pods that were asked to leave at about the same time: nothing
// was asked for less than a tick before it.
type Wave struct {
	From, To time.Duration
	Pods     int
}

// BudgetUse is what the drain uses of one budget.
type BudgetUse struct {
	Budget      snapshot.Key
	Evictions   int
	Desired     int32 // healthy pods that it asks for, at the end
	Lowest      int32 // least healthy pods while the drain ran
	First, Last time.Duration
}

// Surge is a Deployment that is scaled up for the time of the drain.
type Surge struct {
	Workload snapshot.Key
	From, To int32 // replicas before, and at the most
	Start    time.Duration
	End      time.Duration // scaled back; zero if it never is
}

// Left is a pod that is not where it should be when the drain has ended.
type Left struct {
	Pod  *snapshot.Pod
	Node string // "" for a replacement that finds no node
	Why  string
}
