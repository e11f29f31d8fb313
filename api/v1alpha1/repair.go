package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Repair says when an unhealthy member gets a successor without a request of a person. The conditions, and the defaults, are those of source
// 002, "Automatic Replacements".
//
// +kubebuilder:validation:XValidation:rule="!has(self.taints) || self.taints.all(t, self.taints.exists_one(u, u.key == t.key))",message="a taint's key may stand there once"
type Repair struct {
	// Mode says whether unhealthy members are replaced. Without it they are not, and status.unhealthy says which there are.
	// +optional
	// +kubebuilder:default=Disabled
	Mode RepairMode `json:"mode,omitempty"`
	// UnhealthyAfter is how long a condition must have stood, of all but NodeTainted.
	// +optional
	// +kubebuilder:default="2h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="must be between 0s and 8760h"
	UnhealthyAfter *metav1.Duration `json:"unhealthyAfter,omitempty"`
	// UnhealthyConditions are those that count; none: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	UnhealthyConditions []MemberConditionType `json:"unhealthyConditions,omitempty"`
	// MaxInFlight limits what is being replaced, whatever asked for it.
	// +optional
	// +kubebuilder:default={members: 1}
	MaxInFlight *MaxInFlight `json:"maxInFlight,omitempty"`
	// Taints are what is watched on the nodes of members. One with a taint's key goes before one with "*". None: taints do not count.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=16
	Taints []RepairTaint `json:"taints,omitempty"`
	// TaintedAfter is how long NodeTainted must have stood, after the time that the taint's entry gives.
	// +optional
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="must be between 0s and 8760h"
	TaintedAfter *metav1.Duration `json:"taintedAfter,omitempty"`
	// StopAbove is how much may be unhealthy at once: above it nothing is replaced.
	// +optional
	// +kubebuilder:default={zones: "10%"}
	StopAbove *RepairStop `json:"stopAbove,omitempty"`
}

// RepairMode says whether unhealthy members are replaced.
//
// +kubebuilder:validation:Enum=Disabled;Automatic
type RepairMode string

// The modes.
const (
	RepairDisabled  RepairMode = "Disabled"
	RepairAutomatic RepairMode = "Automatic"
)

// MaxInFlight limits what is being replaced at once. Exactly one field is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.members) != has(self.zones)",message="exactly one of members and zones"
type MaxInFlight struct {
	// Members is how many members may be. 0: none is.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Members *int32 `json:"members,omitempty"`
	// Zones is how many zones may have any: in one that has, any number may be marked. They are replaced one after the other.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Zones *int32 `json:"zones,omitempty"`
}

// RepairTaint is about the taints of one key on the nodes of members.
//
// +kubebuilder:validation:XValidation:rule="has(self.after) != (has(self.action) && self.action == 'Ignore')",message="after, or action Ignore"
type RepairTaint struct {
	// Key is that of the taints, or "*" for all.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key"`
	// After is how long a taint must be there for NodeTainted to be set. It stands then until the member is on another node, or a person has
	// deleted the request for its replacement.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="must be between 0s and 8760h"
	After *metav1.Duration `json:"after,omitempty"`
	// Action Ignore has taints of the key not count, although "*" would have them count.
	// +optional
	// +kubebuilder:default=Replace
	Action RepairTaintAction `json:"action,omitempty"`
}

// RepairTaintAction says what follows from a taint.
//
// +kubebuilder:validation:Enum=Replace;Ignore
type RepairTaintAction string

// The actions.
const (
	TaintReplace RepairTaintAction = "Replace"
	TaintIgnore  RepairTaintAction = "Ignore"
)

// RepairStop is how much may be unhealthy at once.
type RepairStop struct {
	// Zones is how many of the zones that have members may have unhealthy ones, or what share of them. Rounded down, and 1 at least. Where
	// nodes have no zones, each is one.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? int(self) >= 0 : string(self).matches('^(100|[0-9]{1,2})%$')",message="must be a number or a percentage"
	Zones intstr.IntOrString `json:"zones"`
}

// MemberConditionType is something that can be wrong with a member.
//
// +kubebuilder:validation:Enum=NotReporting;PodFailing;PodMissing;ClaimMissing;ServiceMissing;PodPending;NodeTainted;ExcludedUnmarked
type MemberConditionType string

// UnhealthyMember is a member that something is wrong with, or on whose node there is a taint that counts.
type UnhealthyMember struct {
	// Role is the name of its role, ID is what its system knows it by.
	Role string `json:"role"`
	ID   string `json:"id"`
	// PodName is the name of its pod, or of the one that it is to have.
	// +optional
	PodName string `json:"podName,omitempty"`
	// Node is the one on which it is, or was last; NodeUID is that Node's.
	// +optional
	Node string `json:"node,omitempty"`
	// +optional
	// +kubebuilder:validation:Type=string
	NodeUID types.UID `json:"nodeUID,omitempty"`
	// Zone is its failure domain.
	// +optional
	Zone string `json:"zone,omitempty"`
	// Conditions are what is wrong, and since when.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []MemberCondition `json:"conditions,omitempty"`
	// Taints are those that count on its node, and since when they were seen there.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Taints []MemberTaint `json:"taints,omitempty"`
	// Request is the name of the ReplacementRequest that was made for it.
	// +optional
	Request string `json:"request,omitempty"`
	// RequestEndTime is when the last such request was complete, or was deleted. What is wrong counts from then on.
	// +optional
	RequestEndTime *metav1.Time `json:"requestEndTime,omitempty"`
	// Paused is why its health is not looked at for now.
	// +optional
	Paused string `json:"paused,omitempty"`
	// Blockers are what keeps a member from being replaced that has been unhealthy for long enough.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Blockers []ReplacementBlocker `json:"blockers,omitempty"`
}

// MemberCondition is something that is wrong with a member.
type MemberCondition struct {
	Type MemberConditionType `json:"type"`
	// StartTime is since when it stands without a gap.
	StartTime metav1.Time `json:"startTime"`
}

// MemberTaint is a taint on a member's node.
type MemberTaint struct {
	Key string `json:"key"`
	// +optional
	Effect string `json:"effect,omitempty"`
	// StartTime is since when it was seen there.
	StartTime metav1.Time `json:"startTime"`
}
