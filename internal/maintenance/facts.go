package maintenance

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Finalizer is on a NodeMaintenance until its nodes are given back.
const Finalizer = "usher.sh/maintenance"

// Input is what a decision goes by.
type Input struct {
	Now          time.Time
	Maintenances []*v1alpha1.NodeMaintenance // as read; they are not changed
	Nodes        []*Node
	Drains       map[string]*Drain // of this process, by node
	Calls        map[Call]*Attempt // by what was to be done
}

// Free reports whether a node is there, and neither has a record of a maintenance nor is in the status of one that drains.
func (in *Input) Free(node types.UID) bool {
	has := func(e v1alpha1.MaintainedNode) bool { return e.UID == node }
	return slices.ContainsFunc(in.Nodes, func(n *Node) bool { return n.UID == node && !Owned(n.Node) }) &&
		!slices.ContainsFunc(in.Maintenances, func(m *v1alpha1.NodeMaintenance) bool { return Drains(m) && slices.ContainsFunc(m.Status.Nodes, has) })
}

// Node is a node as maintenances see it.
type Node struct {
	*snapshot.Node

	ProviderID     string
	BootID         string
	KubeletVersion string
	Conditions     []corev1.NodeCondition
}

// condition returns a condition of the node, nil where it has none of the type.
func (n *Node) condition(kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Conditions {
		if n.Conditions[i].Type == kind {
			return &n.Conditions[i]
		}
	}
	return nil
}

// Owned reports whether a maintenance has the node, by the record on it: it is the maintenances' to give back.
func Owned(n *snapshot.Node) bool {
	return n != nil && n.Drain != nil && n.Drain.OfMaintenance()
}

// Has reports whether a maintenance has the node, by a record on it: it drains it, or keeps it cordoned.
func Has(n *snapshot.Node) bool { return Owned(n) || n != nil && n.KeepsCordon() }

// Unended reports whether a maintenance's drain has not come to an end, as far as the record on its node says. One that is blocked goes on,
// with what it has asked for and its surges, until something clears.
func Unended(record *snapshot.DrainRecord) bool {
	return record.Working() || record.State == string(drain.NodeBlocked)
}

// Drain is what the drain of a node does, or how it ended.
type Drain struct {
	Terms    Terms
	Begun    bool          // the node was taken: it may be cordoned
	Checks   bool          // it only looks for what objects to it, or has ended with that: its node is not touched
	Checked  bool          // that was looked for, and is in Blockers
	Outcome  drain.Outcome // Running while it goes on
	Stopped  bool          // it was ended by an order, with what it had asked for withdrawn
	PodCount int           // that have to leave yet
	Blockers []drain.Blocker
	Warnings []drain.Warning
	Failure  string // why it could not be run, or ended; it is tried again
}

// over reports whether the drain has come to its end by itself.
func (d *Drain) over() bool { return d != nil && d.Outcome != drain.Running && !d.Stopped }

// clear reports whether nothing objects to a drain that was only looked into.
func (d *Drain) clear() bool {
	return d.Checks && d.Checked && len(d.Blockers) == 0 && d.Failure == ""
}

// objected reports whether something objects to a drain, or it could not be run.
func (d *Drain) objected() bool { return d != nil && (d.Failure != "" || len(d.Blockers) > 0) }

// heldBySystems reports whether a drain goes on with no pods left but those that their systems have not let go yet, and those that go after them.
func (d *Drain) heldBySystems() bool {
	if d == nil || !d.Begun || d.Stopped || d.Failure != "" || d.over() {
		return false
	}
	held := map[snapshot.Key]bool{}
	for i := range d.Blockers {
		b := &d.Blockers[i]
		if b.Dead || !slices.Contains([]drain.Reason{drain.SystemDecides, drain.EarlierRole, drain.EarlierWave}, b.Reason) {
			return false
		}
		held[b.Pod] = true
	}
	return len(held) > 0 && len(held) == d.PodCount
}

// Call is what a step has done once, for a maintenance: a hook is called, requests are made, a Node is deleted.
type Call struct {
	Maintenance types.UID
	Node        types.UID
	Step        v1alpha1.MaintenanceStep
	PodCount    int // while the node is drained: requests are made anew whenever more have left
}

// Attempt is how a call went.
type Attempt struct {
	Done    bool
	Failure string    // of the last try, "" before that
	Since   time.Time // of the first try that failed
}
