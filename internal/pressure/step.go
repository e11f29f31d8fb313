package pressure

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// State is what the kubelet remembers from one look at its node to the next. The zero value is a kubelet that has just
// started.
type State struct {
	// FirstMet is since when a threshold is met; Due are those whose grace had passed at the last look.
	FirstMet map[string]time.Time `json:"firstMet,omitempty"`
	Due      []string             `json:"due,omitempty"`
	// Conditions is when each condition was last true.
	Conditions map[corev1.NodeConditionType]time.Time `json:"conditions,omitempty"`
	// Readings is when each signal was last read.
	Readings map[Signal]time.Time `json:"readings,omitempty"`
}

// Input is one look at a node.
type Input struct {
	Now        time.Time
	Node       Node
	Pods       []Pod
	Thresholds []Threshold
	Config     Config
	// Order is OrderKubelet where it is empty.
	Order Order
}

// Output is what follows from one look.
type Output struct {
	// Conditions are those that the node reports, sorted.
	Conditions []corev1.NodeConditionType
	// Taints are those that the conditions bring.
	Taints []corev1.Taint
	// Met are the thresholds that are below their value now, whether their grace has passed or not.
	Met []Threshold
	// Due are the thresholds that call for a victim now; the first is the one that is acted upon.
	Due []Threshold
	// Reclaim is what the kubelet clears away first; if Cleared then, nobody is evicted.
	Reclaim []Reclaim
	// Ranking is the order for the first of Due.
	Ranking []Ranked
	// Victim is nil where nobody is evicted.
	Victim *Victim
	// Skipped are signals with a threshold on which nothing was decided.
	Skipped []Skipped
}

// Reclaim is something that a node clears away before it evicts.
type Reclaim string

// What is cleared away.
const (
	DeadContainers Reclaim = "dead containers"
	UnusedImages   Reclaim = "unused images"
)

// Victim is the pod that is evicted.
type Victim struct {
	Pod       Pod
	Grace     time.Duration // at least 1 s
	Threshold Threshold
	Message   string
}

// Skipped is a signal on which nothing was decided, and why.
type Skipped struct {
	Signal  Signal     `json:"signal"`
	Reason  SkipReason `json:"reason"`
	Message string     `json:"message"`
}

// SkipReason says why nothing was decided on a signal.
type SkipReason string

// The reasons.
const (
	SkipMissing SkipReason = "Missing" // there is no reading
	SkipStale   SkipReason = "Stale"   // the reading is too old, or the one that was acted upon already
)

// Step is one look of the kubelet: the state after it and what follows. The state given is not changed.
func (s State) Step(in Input) (State, Output) { return s, Output{} }

// Cleared reports whether a node is above all thresholds and their minimum reclaim, so that nobody has to go.
func Cleared(node Node, thresholds []Threshold) bool { return false }
