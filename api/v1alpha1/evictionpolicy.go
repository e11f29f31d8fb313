package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// EvictionPolicy says which pods belong to a system and when each of them may leave its node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=evp,categories=usher
// +kubebuilder:printcolumn:name="System",type=string,JSONPath=`.status.system.kind`
// +kubebuilder:printcolumn:name="Members",type=integer,JSONPath=`.status.members`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Asked",type=date,JSONPath=`.status.system.observed`
// +kubebuilder:printcolumn:name="Says",type=string,JSONPath=`.status.system.summary`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EvictionPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EvictionPolicySpec   `json:"spec"`
	Status EvictionPolicyStatus `json:"status,omitempty"`
}

// EvictionPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type EvictionPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []EvictionPolicy `json:"items"`
}

// EvictionPolicySpec is what the owner of a system declares.
type EvictionPolicySpec struct {
	// System is what the members belong to.
	System System `json:"system"`

	// Members says which pods are members, and as what. A pod that two entries claim, of one policy or of two, is
	// blocked until that is cleared up.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Members []MemberSelector `json:"members"`

	// Roles are roles of this policy's own. One with the name of a built-in role takes its place here.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Roles []Role `json:"roles,omitempty"`

	// Suspend stops everything that Usher does for this policy: no preparation is started and no pod is evicted. Its
	// pods stay governed: what asks for their eviction is refused.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// MemberSelector says which pods are members, in which role.
type MemberSelector struct {
	// Role is the name of a built-in role (usher roles lists them) or of one in spec.roles.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Role string `json:"role"`

	// Selector selects pods in the policy's namespace. It must not be empty.
	Selector metav1.LabelSelector `json:"selector"`

	// ID is a CEL expression over `pod` that gives the member's id as its system knows it. Default: pod.name.
	// +optional
	// +kubebuilder:default="pod.name"
	// +kubebuilder:validation:MaxLength=1024
	ID string `json:"id,omitempty"`

	// OnDelete says what a DELETE of the pod means that does not come from the kubelet, the garbage collector, the
	// namespace's deletion or the pod's own controller: an eviction, answered from the verdict (Guard), or nothing that
	// concerns Usher (Allow).
	// +optional
	// +kubebuilder:default=Guard
	OnDelete DeleteMeaning `json:"onDelete,omitempty"`

	// Controllers are users whose DELETE is that of the pod's own controller, beside Kubernetes' own: the service account
	// of a database's operator, say ("system:serviceaccount:NAMESPACE:NAME").
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=set
	Controllers []string `json:"controllers,omitempty"`

	// OnNodePressure says what becomes of the pod when its node has run short of something past a hard threshold and no
	// other pod can help: it stays unless its verdict is Allowed (WhenAllowed), or it goes although it is blocked, with
	// the reason written on it (LastResort).
	// +optional
	// +kubebuilder:default=WhenAllowed
	OnNodePressure PressureMode `json:"onNodePressure,omitempty"`
}

// DeleteMeaning says what a caller's DELETE of a governed pod means.
//
// +kubebuilder:validation:Enum=Guard;Allow
type DeleteMeaning string

// The meanings.
const (
	DeleteGuard DeleteMeaning = "Guard"
	DeleteAllow DeleteMeaning = "Allow"
)

// PressureMode says whether a governed pod may be sacrificed when its node runs short.
//
// +kubebuilder:validation:Enum=WhenAllowed;LastResort
type PressureMode string

// The modes.
const (
	PressureWhenAllowed PressureMode = "WhenAllowed"
	PressureLastResort  PressureMode = "LastResort"
)

// EvictionPolicyStatus is what Usher saw and did.
type EvictionPolicyStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Reconciling and Stalled, as kstatus reads them.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Members counts the pods that are members now.
	// +optional
	Members int32 `json:"members"`
	// +optional
	// +listType=map
	// +listMapKey=role
	Roles []RoleStatus `json:"roles,omitempty"`
	// +optional
	System SystemStatus `json:"system,omitempty"`

	// Epoch counts the changes of Leaving. Evidence counts only if it was observed by somebody who knew this number.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// Leaving are the members that may go and were not seen gone. An entry is written before its eviction is let through.
	// +optional
	// +listType=map
	// +listMapKey=uid
	// +kubebuilder:validation:MaxItems=1000
	Leaving []Leaving `json:"leaving,omitempty"`
	// Departed are pods that are gone and for which callers were refused before, as long as these may ask again by name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Departed []Departed `json:"departed,omitempty"`
	// Preparations are the steps that were begun and neither undone nor overtaken. An entry is written before the system
	// is asked.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Preparations []PreparationStatus `json:"preparations,omitempty"`
}

// RoleStatus counts the members of one role.
type RoleStatus struct {
	Role    string `json:"role"`
	Members int32  `json:"members"`
	// Evictable counts those whose verdict is Allowed, each taken by itself.
	Evictable int32 `json:"evictable"`
}

// SystemStatus is what the system said last.
type SystemStatus struct {
	// Kind is the field of spec.system that is set.
	// +optional
	Kind string `json:"kind,omitempty"`
	// Observed is when the newest evidence was complete, renewed once a minute while nothing changes.
	// +optional
	Observed *metav1.Time `json:"observed,omitempty"`
	// Summary is what it said, in a line.
	// +optional
	Summary string `json:"summary,omitempty"`
	// Error is why it could not be asked, empty while it can.
	// +optional
	Error string `json:"error,omitempty"`
}

// Leaving is a member that may go.
type Leaving struct {
	UID    types.UID `json:"uid"`
	Pod    string    `json:"pod"`
	Member string    `json:"member"`
	Role   string    `json:"role"`
	// Since is when the eviction was let through last.
	Since metav1.Time `json:"since"`
	// By is who was let through.
	By string `json:"by"`
	// LingerSeconds is how long after Since the member counts although its pod was seen gone: it was removed without
	// waiting for its process to end.
	// +optional
	LingerSeconds int64 `json:"lingerSeconds,omitempty"`
	// GoneTime is when the pod was seen gone, where its role lets the member count for longer (evict.settle).
	// +optional
	GoneTime *metav1.Time `json:"goneTime,omitempty"`
	// Node is the one that the member leaves.
	// +optional
	Node string `json:"node,omitempty"`
	// Refused are the requesters, beside the one that was let through, whom admission has refused for the pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Refused []string `json:"refused,omitempty"`
}

// Departed is a pod that is gone, and whose name another pod may have by now.
type Departed struct {
	UID  types.UID `json:"uid"`
	Pod  string    `json:"pod"`
	Node string    `json:"node"`
	// Refused are the requesters whom admission has refused for the pod, and who may not know that it is gone.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Refused []string `json:"refused"`
	// Time is when it was seen gone.
	Time metav1.Time `json:"time"`
}

// PreparationStatus is a step that makes a member safe to leave.
type PreparationStatus struct {
	Name   string `json:"name"`
	Member string `json:"member"`
	// UID is the pod for which the step was begun.
	UID   types.UID   `json:"uid"`
	Pod   string      `json:"pod"`
	Since metav1.Time `json:"since"`
	// Asked is when the system was asked last.
	Asked metav1.Time `json:"asked"`
	// State is Begun, or Undoing after the last requester has withdrawn.
	// +kubebuilder:validation:Enum=Begun;Undoing
	State PreparationState `json:"state"`
	// Message is the system's word on it.
	// +optional
	Message string `json:"message,omitempty"`
	// Left is how much there was to do when the step was begun, as its role counts it; 0 where it does not.
	// +optional
	Left int64 `json:"left,omitempty"`
	// Job is the system's id of the job that does the step, where the system has answered with one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Job string `json:"job,omitempty"`
	// JobOrigin says whose Job is. Begun: the system's answer to the call that began it had its id. Found: it was under way
	// when the system was asked, so another client has begun it, or a call of Usher's did whose answer was lost. What was found
	// is not taken back.
	// +optional
	JobOrigin JobOrigin `json:"jobOrigin,omitempty"`
}

// JobOrigin says whether a job was begun for a step.
//
// +kubebuilder:validation:Enum=Begun;Found
type JobOrigin string

// The origins.
const (
	JobBegun JobOrigin = "Begun"
	JobFound JobOrigin = "Found"
)

// PreparationState is where a preparation stands.
type PreparationState string

// The states.
const (
	PreparationBegun   PreparationState = "Begun"
	PreparationUndoing PreparationState = "Undoing"
)

// Conditions of a policy, beside kstatus's.
const (
	ConditionReady       = "Ready"
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
)
