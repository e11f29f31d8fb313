package nodelock

import (
	"fmt"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// Reasons of blockers. The set is closed.
const (
	ReasonContested = "NodeLockContested" // another client changes back what was written
	ReasonRefused   = "WriteRefused"      // what is to be written, or read before that, is refused
)

// MostBlockers is how many a policy's status has.
const MostBlockers = 20

// Contested is about a label or a lock that another client has changed back. Value is "-" for a lock that was taken off.
func Contested(node, key, value string, again time.Time) v1alpha1.NodeLockBlocker {
	wrote := fmt.Sprintf("set to %q", value)
	if value == removed {
		wrote = "taken off"
	}
	return blocker(node, ReasonContested,
		fmt.Sprintf("%s of node %s was %s, and another client has changed that; it is written again at %s", key, node, wrote, again.UTC().Format(time.RFC3339)),
		fmt.Sprintf("see which client writes it, and have only one do so: kubectl get node %s -o yaml --show-managed-fields", node))
}

// Refused is about a write that was refused, of a node or, "", of any.
func Refused(node, said, remedy string) v1alpha1.NodeLockBlocker {
	what := "nodes"
	if node != "" {
		what = "node " + node
	}
	return blocker(node, ReasonRefused, fmt.Sprintf("label and locks of %s cannot be written; it waits until they can: %s", what, said), remedy)
}

func blocker(node, reason, message, remedy string) v1alpha1.NodeLockBlocker {
	return v1alpha1.NodeLockBlocker{Node: node, Reason: reason, Message: text.Line(message), Remedy: text.Line(remedy)}
}
