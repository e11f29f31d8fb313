package drain

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// PodState is where a pod stands in its drain.
type PodState string

// The states, in the order in which a pod passes through them.
const (
	Staying     PodState = "staying"     // not part of the drain: Reason says why
	Emptied     PodState = "emptied"     // it stays by its policy, and all that it carries has left
	Waiting     PodState = "waiting"     // held by Blockers
	Surging     PodState = "surging"     // its replacement is being started first
	Evicting    PodState = "evicting"    // asked, no answer yet
	Terminating PodState = "terminating" // the API has accepted its deletion
	GoneState   PodState = "gone"        // seen gone; its replacement is not ready yet
	Replaced    PodState = "replaced"    // seen gone, and its replacement is ready
	Ended       PodState = "ended"       // seen gone, and no replacement is due: Note says why
)

// PodStatus is a pod on a targeted node, or one that has left it.
type PodStatus struct {
	Pod         *snapshot.Pod
	State       PodState
	Wave        int
	Note        string    // why it stays, or what replaces it
	Blockers    []Blocker // all of them
	GoneAt      time.Time
	Replacement *snapshot.Pod // ready or not; nil if none was seen or none is due
	Held        bool          // nothing but budgets holds it, for as long as administrators let them
}

// NodeState is where a node stands.
type NodeState string

// The node states.
const (
	NodePending  NodeState = "pending" // its turn has not come
	NodeDraining NodeState = "draining"
	NodeDrained  NodeState = "drained"
	NodeBlocked  NodeState = "blocked" // only blockers that cannot clear are left
	NodeMissing  NodeState = "missing" // it was deleted

	// Pods were left on the node when the drain ended before it was done: these have the
	// values of its outcome.
	NodeInterrupted NodeState = NodeState(Interrupted)
	NodeTimedOut    NodeState = NodeState(TimedOut)
	NodeLate        NodeState = NodeState(DeadlinePassed)
)

// NodeStatus is a targeted node.
type NodeStatus struct {
	Name     string
	State    NodeState
	Left     int       // pods that still have to leave
	Blockers []Blocker // of the node itself: another drain, volumes
}

// Outcome is how a drain ends.
type Outcome string

// The outcomes. Running is the zero value.
const (
	Running        Outcome = ""
	Drained        Outcome = "drained"
	Blocked        Outcome = "blocked"
	DeadlinePassed Outcome = "deadline"
	TimedOut       Outcome = "timeout"
	Interrupted    Outcome = "interrupted"
	NoAccess       Outcome = "no-access" // the caller may not evict at all
	Left           Outcome = "left"      // by its process, which undoes nothing: another one goes on
)

// Decision is what to do now and how things stand.
type Decision struct {
	Actions []Action
	Pods    []PodStatus // in the order of leaving; those that stay come last
	Nodes   []NodeStatus
	Notes   []string  // things said once: a surge that cannot be had, say
	Phase   string    // the present step of the deadline's schedule; "" without one
	Next    time.Time // when to look again without an event; zero: only on an event
	Outcome Outcome   // how it ends; Running while it goes on
	Settled bool      // the outcome stands and everything was tidied up

	Successors map[types.UID]types.UID // of pods that left: what has taken their place, themselves where that is not known

	Warnings []Warning // by pod, in the order of Pods; only in drains of maintenances

	Surplus map[types.UID]Surplus // workloads with more ready pods than they are to have
}

// Blockers returns the blockers of all pods and nodes, pods first.
func (d Decision) Blockers() []Blocker {
	var all []Blocker
	for i := range d.Pods {
		all = append(all, d.Pods[i].Blockers...)
	}
	for i := range d.Nodes {
		all = append(all, d.Nodes[i].Blockers...)
	}
	return all
}
