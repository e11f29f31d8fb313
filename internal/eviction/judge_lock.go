package eviction

import (
	"fmt"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
)

// awaitLocks blocks the waiter of a nodeLock while a lock is on its node, whoever has set it, and until the node's label says that it leaves: who
// looks at the label after having locked the node comes before that, or stays away. Nothing is prepared for it until then.
func (j *judgement) awaitLocks() {
	if !j.entry.nodeLock.waits() || j.in.Pod.Node == "" {
		return
	}
	before := len(j.verdict.Blockers)
	if j.in.Node == nil {
		j.block(locksUnknown(j.in.Pod.Node))
	} else {
		if locks := j.in.Node.Locks(j.entry.nodeLock.prefix); len(locks) > 0 {
			j.block(nodeLocked(locks, j.policy.Key, j.in.Node.Name))
		}
		label := j.entry.nodeLock.label
		if value := j.in.Node.Labels[label]; value != v1alpha1.NodeLockLeaves && !j.restarts() {
			j.block(labelPending(label, value, j.policy.Key, j.in.Node.Name))
		}
	}
	if len(j.verdict.Blockers) > before {
		j.verdict.Needed = nil
	}
}

// restarts reports whether the pod is only to come back where it is: no EvictionRequest is made for the DELETE of a DaemonSet's pod, so that nothing
// labels the node for it.
func (j *judgement) restarts() bool { return j.deletion && j.in.Pod.Owner.DaemonSet() }

func locksUnknown(node string) Blocker {
	return Blocker{
		Reason:  NodeLocked,
		Message: fmt.Sprintf("which locks are on node %s is not known; it waits until the node was read", node),
		Remedy:  "ask again in a moment",
		Retry:   lookAgain,
	}
}

// nodeLocked names the locks. A lock of the policy's own goes by itself; any other is its owner's.
func nodeLocked(locks []string, policy snapshot.Key, node string) Blocker {
	const shown = 5
	var foreign string
	for _, lock := range locks {
		if foreign == "" && snapshot.LockOwner(lock) != snapshot.NodeLockOwner(policy) {
			foreign = lock
		}
	}
	names := append([]string{}, locks[:min(shown, len(locks))]...)
	if rest := len(locks) - len(names); rest > 0 {
		names = append(names, fmt.Sprintf("%d more", rest))
	}
	b := Blocker{
		Reason:  NodeLocked,
		Message: fmt.Sprintf("node %s has locks of what needs it there: %s; it waits until they are taken off", node, expression.Listed(names)),
		Remedy:  fmt.Sprintf("wait until the members that hold them have left the node; kubectl get evictionpolicy %s -n %s -o yaml says in status.nodeLock if they cannot be taken off", policy.Name, policy.Namespace),
		Retry:   lookAgain,
	}
	if foreign != "" {
		b.Remedy = fmt.Sprintf("wait until what has set them has left the node; where nothing of it is there any more: kubectl annotate node %s %s-", node, foreign)
	}
	return b
}

func labelPending(label, value string, policy snapshot.Key, node string) Blocker {
	is := "is not set"
	if value != "" {
		is = fmt.Sprintf("is %q", value)
	}
	return Blocker{
		Reason:  NodeLabelPending,
		Message: fmt.Sprintf("label %s of node %s %s, and nothing that needs it may come any more before it leaves; it waits until Usher has set the label to %q", label, node, is, v1alpha1.NodeLockLeaves),
		Remedy: fmt.Sprintf("have it requested (usher evict, usher drain), and wait; kubectl get evictionpolicy %s -n %s -o yaml says in status.nodeLock if the label cannot be set",
			policy.Name, policy.Namespace),
		Retry: lookAgain,
	}
}
