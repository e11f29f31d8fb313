package eviction

import (
	"time"

	"usher.sh/usher/internal/snapshot"
)

// Scope is what an expression may look at. A fact that is absent is not known, and an expression that needs it fails.
type Scope struct {
	Now time.Time // `now`; zero: not known
	// Pod is `pod`; Deleted, that it was seen gone, is `pod.deleted`.
	Pod     *snapshot.Pod
	Deleted bool
	// Node is `node`; nil: not known.
	Node *snapshot.Node
	// Member and Role are `member.id` and `member.role`; Facts are what the system says of the member.
	Member string
	Role   string
	Facts  Facts
	// System is `system`.
	System Facts
	// Leaving is `leaving`: the ids of the policy's other members that are on their way, of whatever role.
	Leaving []string
}
