package replacement

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// Member is a member of a policy, whether it has a pod or not.
type Member struct {
	v1alpha1.MemberRef

	// Zone is its failure domain; "": not known, and the last one that was known counts. Where nodes have no zones, it is the node's name.
	Zone   string
	Facts  Facts
	Record Record
	// Marked: a ReplacementRequest stands for it, or its system or its operator is replacing it by itself.
	Marked bool
	// Held: its request waits for what may never come, and does not count as in flight.
	Held bool
	// Unfit is why it is not marked although it is due: nothing would be done for it. nil: something may be.
	Unfit *Blocker
	// Paused is why its health is not looked at for now: its zone is under maintenance, say. What was wrong before counts anew afterwards.
	Paused string
	// CancelTime is when the last request for its replacement was complete, or was withdrawn by a person; conditions count from then on.
	CancelTime time.Time
}

// Tristate is what is known of a question. What was not read is unknown.
type Tristate int

// The values.
const (
	Unknown Tristate = iota
	Yes
	No
)

// Facts are what is known of a member now.
type Facts struct {
	// Reported: its system reports it.
	Reported Tristate
	// Excluded: its system was asked to keep nothing on it, or on one of its processes. ExclusionWanted: by what is to replace it, or by a preparation that stands.
	Excluded        Tristate
	ExclusionWanted bool
	// Emptied: and it keeps nothing on any of them by now.
	Emptied Tristate
	// HasPod: there is a pod. Of a member that is to have none it is unknown.
	HasPod Tristate
	Pod    Pod
	// Claims and Service: what its pod needs beside itself is there, or it needs none.
	Claims, Service Tristate
	// NodeUID and Taints are of its pod's node, where NodeKnown.
	NodeKnown bool
	NodeUID   types.UID
	Taints    []corev1.Taint
}

// Pod is what a member's health rests on.
type Pod struct {
	Pending bool
	// Healthy: it has not failed, and it is Ready.
	Healthy bool
	// DeletionTime is its deletionTimestamp, at which its grace ends; zero: it does not terminate.
	DeletionTime time.Time
}

// Record is what is remembered of a member from one look to the next.
type Record struct {
	Conditions []Condition // at most one of each type, sorted by type
	// Zone is the last that was known.
	Zone string
	// Node is the one that Taints and the condition NodeTainted are about.
	Node    string
	NodeUID types.UID
	Taints  []TaintClock // sorted by key, then by effect
	// Paused: the last look was not one.
	Paused bool
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
	// PodFailing: its pod has failed, is not Ready, or is there 5 minutes after its deletionTimestamp.
	PodFailing ConditionType = "PodFailing"
	// PodMissing: it has no pod.
	PodMissing ConditionType = "PodMissing"
	// ClaimMissing: a PersistentVolumeClaim that its pod needs is not there.
	ClaimMissing ConditionType = "ClaimMissing"
	// ServiceMissing: the Service that its pod needs is not there.
	ServiceMissing ConditionType = "ServiceMissing"
	// PodPending: its pod is not started.
	PodPending ConditionType = "PodPending"
	// NodeTainted: its pod has run for as long as a rule says on a node with a taint that counts. It stands until the member is on another
	// node, whether the taint is taken off or not.
	NodeTainted ConditionType = "NodeTainted"
	// ExcludedUnmarked: its system is to keep nothing on it, although nothing is to replace it: the system lacks what it could carry.
	ExcludedUnmarked ConditionType = "ExcludedUnmarked"
)

var allConditions = []ConditionType{NotReporting, PodFailing, PodMissing, ClaimMissing, ServiceMissing, PodPending, NodeTainted, ExcludedUnmarked}
