package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReplacementFinalizer is on a ReplacementRequest from before anything is done for it until nothing of it is under way.
const ReplacementFinalizer = "usher.sh/replacement"

// ReplacementRequest has one member replaced by a successor with an empty disk. Deleting it cancels, as long as nothing of the member was
// removed, or what was asked of an operator can be undone; from then on it is gone on with, and the object stays until the successor does its work.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rr,categories=usher
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.source.name`
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.spec.member.role`
// +kubebuilder:printcolumn:name="Member",type=string,JSONPath=`.spec.member.id`
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Successor",type=string,JSONPath=`.status.successor.node`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Requester",type=string,JSONPath=`.spec.requester`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ReplacementRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ReplacementRequestSpec   `json:"spec"`
	Status ReplacementRequestStatus `json:"status,omitempty"`
}

// ReplacementRequestList is a list of requests.
//
// +kubebuilder:object:root=true
type ReplacementRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ReplacementRequest `json:"items"`
}

// ReplacementRequestSpec says which member is to be replaced, and for whom. It does not change, but that a person gives up its data once.
//
// +kubebuilder:validation:XValidation:rule="self.requester == oldSelf.requester && self.source == oldSelf.source && self.member == oldSelf.member",message="a ReplacementRequest is for one member: it does not change, and only abandonment may be added; delete it and create another"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.abandonment) || has(self.abandonment) && self.abandonment == oldSelf.abandonment",message="an abandonment is a record: it does not change; delete the request and create another"
type ReplacementRequestSpec struct {
	// Requester is who wants it, with a domain: person.usher.sh/anna.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$`
	Requester string `json:"requester"`
	// Source is what the member belongs to, in the request's namespace.
	Source ReplacementSource `json:"source"`
	// Member is the one to be replaced.
	Member ReplacementMember `json:"member"`
	// Abandonment gives up data of the member that may be nowhere else.
	// +optional
	Abandonment *ReplacementAbandonment `json:"abandonment,omitempty"`
}

// ReplacementAbandonment is a person's word that a member is to be replaced although rules of its role say that others do not have its data.
// Admission insists that its requester is the user that writes it.
type ReplacementAbandonment struct {
	// Requester is the user, as the apiserver knows it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Requester string `json:"requester"`
	// Time is when it was given, by the client's clock.
	Time metav1.Time `json:"time"`
	// Rules are the names of the role's rules of replacement that are given up: whether they pass decides nothing any more. One that is marked
	// never, or is about the member's own pod and node alone, decides all the same.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Rules []string `json:"rules"`
}

// ReplacementSource names what says how a member is replaced.
type ReplacementSource struct {
	// Kind is its kind.
	Kind ReplacementSourceKind `json:"kind"`
	// Name is its name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ReplacementSourceKind is a kind of objects whose members can be replaced.
//
// +kubebuilder:validation:Enum=EvictionPolicy
type ReplacementSourceKind string

// SourceEvictionPolicy is the kind EvictionPolicy.
const SourceEvictionPolicy ReplacementSourceKind = "EvictionPolicy"

// ReplacementMember is a member by what its system knows it by. It need not have a pod.
type ReplacementMember struct {
	// Role is the name of its role in the source.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Role string `json:"role"`
	// ID is its id, as the source's spec.members[].id gives it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ID string `json:"id"`
}

// ReplacementStep is how far a replacement is.
//
// +kubebuilder:validation:Enum=Waiting;Removing;Joining;Complete;Cancelled
type ReplacementStep string

// The steps. Complete and Cancelled are the last ones.
const (
	ReplacementWaiting   ReplacementStep = "Waiting"   // nothing was done that a cancellation would have to undo
	ReplacementRemoving  ReplacementStep = "Removing"  // what is left of the predecessor goes
	ReplacementJoining   ReplacementStep = "Joining"   // nothing is left of it; the successor is waited for
	ReplacementComplete  ReplacementStep = "Complete"  // the successor does its work
	ReplacementCancelled ReplacementStep = "Cancelled" // the request was deleted, or repair had no reason for it any more, before anything was done; or its set made no successor any more
)

// ReplacementRequestStatus is what was done and seen. Usher alone writes it.
type ReplacementRequestStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Reconciling and Stalled, as kstatus reads them: Ready once the successor does its work.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Step is how far it is. It is written before anything is done that rests on it.
	// +optional
	Step ReplacementStep `json:"step,omitempty"`
	// StepTime is when the step began.
	// +optional
	StepTime *metav1.Time `json:"stepTime,omitempty"`
	// PodName is the name of the member's pod, once it is known.
	// +optional
	PodName string `json:"podName,omitempty"`
	// Predecessor is what goes, and nothing else: what has another UID was made later. It is written before any of it goes.
	// +optional
	Predecessor *ReplacementPredecessor `json:"predecessor,omitempty"`
	// Places are where pods of the member were seen since the request was made, and may still run: the latest last.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Places []ReplacementPlace `json:"places,omitempty"`
	// Successor is the pod that is to take over.
	// +optional
	Successor *ReplacementSuccessor `json:"successor,omitempty"`
	// Blockers are all that it waits for.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Blockers []ReplacementBlocker `json:"blockers,omitempty"`
	// Waived are blockers that do not hold it, since spec.abandonment gives up the rules that they are about: what was given up, as it was
	// seen last before anything of the member was removed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Waived []ReplacementBlocker `json:"waived,omitempty"`
}

// ReplacementPredecessor is what is removed of a member.
type ReplacementPredecessor struct {
	// PodName is the name of its pod, PodUID its UID; empty where it had none.
	PodName string `json:"podName"`
	// +optional
	// +kubebuilder:validation:Type=string
	PodUID types.UID `json:"podUID,omitempty"`
	// StartTime is when it began to go.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// StatefulSet makes the successor; empty where another controller does.
	// +optional
	StatefulSet string `json:"statefulSet,omitempty"`
	// Target is the object whose patch has an operator replace it (provider.patch).
	// +optional
	Target *ReplacementTarget `json:"target,omitempty"`
	// Node is the one on which it was; no successor is accepted there.
	// +optional
	Node string `json:"node,omitempty"`
	// +optional
	// +kubebuilder:validation:Type=string
	NodeUID types.UID `json:"nodeUID,omitempty"`
	// Claims are its PersistentVolumeClaims.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Claims []ReplacementClaim `json:"claims,omitempty"`
	// Registration is what its system's list of members has for it, where the successor is another member of that list. It is taken off
	// before anything else goes.
	// +optional
	Registration *MemberRegistration `json:"registration,omitempty"`
	// LeftTime is when the steps of spec.system.http.replace.leave were seen to be done. They are not asked for again.
	// +optional
	LeftTime *metav1.Time `json:"leftTime,omitempty"`
}

// MemberRegistration is an entry of a system's own list of members.
type MemberRegistration struct {
	// ID is what the system itself tells its members apart by, and never gives to two: of etcd, the member's id in hexadecimal.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ID string `json:"id"`
	// Cluster is the id of the list itself, where the system has one: of etcd, the cluster's in hexadecimal. What another list says is not
	// believed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Cluster string `json:"cluster,omitempty"`
	// Addresses are where the other members reach it, and will reach its successor: of etcd, its peer URLs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Addresses []string `json:"addresses,omitempty"`
}

// ReplacementTarget is an object of the request's namespace that is patched.
type ReplacementTarget struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// +kubebuilder:validation:Type=string
	UID types.UID `json:"uid"`
}

// ReplacementClaim is a PersistentVolumeClaim that goes with its member.
type ReplacementClaim struct {
	Name string `json:"name"`
	// +kubebuilder:validation:Type=string
	UID types.UID `json:"uid"`
	// Volume is the PersistentVolume that it is bound to. With volumeClaims: Retain it stays.
	// +optional
	Volume string `json:"volume,omitempty"`
}

// ReplacementPlace is a node on which a pod of the member was.
type ReplacementPlace struct {
	Node string `json:"node"`
	// NodeUID is empty where the Node was not there.
	// +optional
	// +kubebuilder:validation:Type=string
	NodeUID types.UID `json:"nodeUID,omitempty"`
	// GoneTime is since when the API has no pod of the member there.
	// +optional
	GoneTime *metav1.Time `json:"goneTime,omitempty"`
}

// ReplacementSuccessor is the pod that takes over.
type ReplacementSuccessor struct {
	PodName string `json:"podName"`
	// +kubebuilder:validation:Type=string
	PodUID types.UID `json:"podUID"`
	// Node is empty until it is bound to one.
	// +optional
	Node string `json:"node,omitempty"`
}

// ReplacementBlocker is one thing that a replacement waits for.
type ReplacementBlocker struct {
	// Rule is the rule of its role that does not pass, empty where the blocker is no rule's.
	// +optional
	Rule string `json:"rule,omitempty"`
	// Reason is CamelCase, for machines.
	Reason string `json:"reason"`
	// Message says what is wrong and what it waits for.
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
	// Remedy says what a person can do about it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Remedy string `json:"remedy,omitempty"`
	// WaivedBy are the rules that spec.abandonment has to give up for it to hold no longer: its own, or, where the system does not answer, all
	// that ask something of it. Empty: no abandonment helps.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	WaivedBy []string `json:"waivedBy,omitempty"`
}

// Over reports whether nothing more is done for the request.
func (s *ReplacementRequestStatus) Over() bool {
	return s.Step == ReplacementComplete || s.Step == ReplacementCancelled
}
