package replacement

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

// Member is a member of a policy, whether it has a pod or not.
type Member struct {
	v1alpha1.MemberRef

	Zone   string // "" where it is not known
	Facts  Facts
	Record Record
	// Marked: a ReplacementRequest stands for it, or its system or its operator is replacing it by itself.
	Marked bool
	// Paused is why nothing is said of its health for now: its zone is under maintenance, say. Conditions are neither set nor cleared.
	Paused string
	// CancelTime is when a person has withdrawn the last request for its replacement; conditions count from then on.
	CancelTime time.Time
}

// Answer is what is known of a question.
type Answer int

// The answers. What was not asked is unknown.
const (
	Unknown Answer = iota
	Yes
	No
)

// AnswerOf is the answer to what is known.
func AnswerOf(yes bool) Answer {
	if yes {
		return Yes
	}
	return No
}

// Facts are what is known of a member now.
type Facts struct {
	// Reported: its system reports it.
	Reported Answer
	// Excluded: its system keeps nothing on it, and is to put nothing there. Wanted: by a preparation that stands.
	Excluded        Answer
	ExclusionWanted bool
	// HasPod: there is a pod; Pod says which.
	HasPod Answer
	Pod    Pod
	// Claims and Service: what its pod needs beside itself is there.
	Claims, Service Answer
	// Taints are those of its pod's node, where NodeKnown.
	NodeKnown bool
	Taints    []corev1.Taint
}

// Pod is what a member's health rests on.
type Pod struct {
	Pending bool
	// Healthy: it has not failed, and it is Ready.
	Healthy bool
	// DeletionTime is since when it terminates; zero: it does not.
	DeletionTime time.Time
}

// Record is what is remembered of a member from one look to the next.
type Record struct {
	Conditions []Condition // at most one of each type, sorted by type
	// Node is the one that Taints and the condition NodeTainted are about.
	Node   string
	Taints []TaintClock // sorted by key, then by effect
}

// Condition is something that is wrong with a member.
type Condition struct {
	Type ConditionType
	// StartTime is since when it stands without a gap.
	StartTime time.Time
}

// TaintClock is since when a taint that counts is on the member's node.
type TaintClock struct {
	Key       string
	Effect    corev1.TaintEffect
	StartTime time.Time
}

// ConditionType says what is wrong with a member.
type ConditionType string

// The types: those of source 002 in general terms.
const (
	// NotReporting: its system is there, and does not report it.
	NotReporting ConditionType = "NotReporting"
	// PodFailing: its pod has failed, is not Ready, or has been terminating for more than 5 minutes.
	PodFailing ConditionType = "PodFailing"
	// PodMissing: it has no pod.
	PodMissing ConditionType = "PodMissing"
	// ClaimMissing: a PersistentVolumeClaim that its pod needs is not there.
	ClaimMissing ConditionType = "ClaimMissing"
	// ServiceMissing: the Service that its pod needs is not there.
	ServiceMissing ConditionType = "ServiceMissing"
	// PodPending: its pod is not started.
	PodPending ConditionType = "PodPending"
	// NodeTainted: a taint that counts has been on its node for as long as its rule says. It stands until the member is on another node,
	// whether the taint is taken off or not.
	NodeTainted ConditionType = "NodeTainted"
	// ExcludedUnmarked: its system keeps nothing on it, although nothing is to replace it: the system lacks what it could carry.
	ExcludedUnmarked ConditionType = "ExcludedUnmarked"
)
