package nodelock

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// Input is what is known of a policy, its members and their nodes at one moment.
type Input struct {
	Now    time.Time
	Policy snapshot.Key
	// Lock is what the policy declares; nil: its locks are taken off, and its members are asked for nothing.
	Lock *v1alpha1.NodeLock
	// Nodes are those with members or with locks of the policy, each once.
	Nodes []*snapshot.Node
	// Holders are the members of holders' roles that are on a node: they run, or may.
	Holders []Holder
	// Waiters are the pods on nodes of all policies in mode Enforce whose waiter has the label of this one.
	Waiters []Waiter
	// Written is what this process has written last, by node.
	Written map[types.UID]Written
}

// Holder is a member that needs the waiter on its node.
type Holder struct {
	Pod  snapshot.Key
	UID  types.UID
	Node string
	Role string
	// Emptied: its pod stays and carries nothing, as long as it is asked to leave. It needs no lock.
	Emptied bool
}

// Waiter is a pod of which a node's label speaks.
type Waiter struct {
	Node string
	Own  bool // of this policy
	// Ready: it does its work. Wanted: an EvictionRequest stands for it. Leaves: it terminates.
	Ready, Wanted, Leaves bool
}

// Written is a write that was accepted.
type Written struct {
	At      time.Time
	Version string            // the node's from then on
	Values  map[string]string // by keys of labels and annotations; "-" for what was taken off
}

// rewriteAfter is how long what another client has changed back is left so: two clients that contradict each other would write as fast as the server
// can store it.
const rewriteAfter = 30 * time.Second

// unseen reports whether a node is shown as it was before it was written last.
func (w *Written) unseen(node *snapshot.Node) bool {
	order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, w.Version)
	return err == nil && order < 0
}

// contradicted reports whether the value was written a moment ago, so that another client has changed it since.
func (w *Written) contradicted(key, value string, now time.Time) bool {
	was, wrote := w.Values[key]
	return wrote && was == value && now.Before(w.At.Add(rewriteAfter))
}
