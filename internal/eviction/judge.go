package eviction

import (
	"time"

	"usher.sh/usher/internal/snapshot"
)

// Input is everything that a verdict looks at.
type Input struct {
	Now time.Time // taken after Evidence was obtained
	Pod *snapshot.Pod
	// Fresh says that Pod comes from the apiserver now (the old object of a DELETE, a live GET) and not from a cache.
	Fresh bool
	// Deleted says that the pod was seen gone; Pod is what was known of it last.
	Deleted bool
	Node    *snapshot.Node // nil: not known
	// Policies are those of the pod's namespace, all of them; others are passed over.
	Policies []Declared
	// Evidence is that of the policy that claims the pod; nil: there is none. It is not looked at where several do.
	Evidence *Evidence
	// Peers are pods of the namespace: at least those that are terminating and those that the policy's status names. Pod
	// itself may be among them.
	Peers []*snapshot.Pod
}

// Judge says whether the pod may leave its node. A pod that no policy governs may, with Role "".
func Judge(in Input) Verdict { return Verdict{Answer: Blocked} }

// JudgeReplace says whether another member may take the pod's place.
func JudgeReplace(in Input) Verdict { return Verdict{Answer: Blocked} }
