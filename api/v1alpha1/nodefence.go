package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FenceFinalizer is on a NodeFence as long as what Usher has set on its node is there.
const FenceFinalizer = "usher.sh/fence"

// NodeFence is the record of one loss of one node: who or what turns the machine off, the proof that it is, and what was done then. It is
// made by Usher for a LostNodePolicy, or by usher fence NODE --confirm. Deleting it overrules it: the taint that Usher has set goes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nf,categories=usher
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Proven",type=date,JSONPath=`.status.provenTime`
// +kubebuilder:printcolumn:name="Stalled",type=string,JSONPath=`.status.conditions[?(@.type=="Stalled")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeFence struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NodeFenceSpec   `json:"spec"`
	Status NodeFenceStatus `json:"status,omitempty"`
}

// NodeFenceList is a list of fences.
//
// +kubebuilder:object:root=true
type NodeFenceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeFence `json:"items"`
}

// NodeFenceSpec says which loss of which node it is. It does not change, but that a person confirms it once.
//
// +kubebuilder:validation:XValidation:rule="self.nodeName == oldSelf.nodeName && self.nodeUID == oldSelf.nodeUID && self.bootID == oldSelf.bootID && self.unreachableSince == oldSelf.unreachableSince && self.policy == oldSelf.policy",message="a fence is of one loss of one node: it does not change, and only confirmation may be added"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.confirmation) || has(self.confirmation) && self.confirmation == oldSelf.confirmation",message="a confirmation is a record: it does not change"
// +kubebuilder:validation:XValidation:rule="size(self.policy) > 0 || has(self.confirmation)",message="a fence without a policy needs a person's confirmation"
type NodeFenceSpec struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`
	// NodeUID is that of the Node: one that is made anew under the name is another.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	NodeUID types.UID `json:"nodeUID"`
	// BootID is status.nodeInfo.bootID of the Node when it was lost. A machine that comes back with it was not off.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	BootID string `json:"bootID"`
	// UnreachableSince is since when its Ready condition is Unknown. What was said of one silence does not hold for the next.
	UnreachableSince metav1.Time `json:"unreachableSince"`
	// Policy is the name of the LostNodePolicy that fences; empty where a person did so without one.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=253
	Policy string `json:"policy"`
	// Confirmation is a person's word that the machine is off. It is a proof.
	// +optional
	Confirmation *FenceConfirmation `json:"confirmation,omitempty"`
}

// FenceConfirmation is a person's word. Admission insists that its requester is the user that writes it.
type FenceConfirmation struct {
	// Requester is the user, as the apiserver knows it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Requester string `json:"requester"`
	// Time is when it was given, by the client's clock.
	Time metav1.Time `json:"time"`
}

// FenceStep is what a fence does, or waits for.
//
// +kubebuilder:validation:Enum=Begun;WaitingForSilence;WaitingForZone;WaitingForPolicy;WaitingForConfirmation;Calling;WaitingForProof;Tainting;WaitingForPods;WaitingForVolumes;WaitingForNewBoot;SameBoot;Untainting;Ended;Cancelled
type FenceStep string

// The steps, in the order in which a loss without trouble takes them. Ended and Cancelled are the last ones.
const (
	FenceBegun                  FenceStep = "Begun"                  // nothing was asked for yet
	FenceWaitingForSilence      FenceStep = "WaitingForSilence"      // its Lease was renewed meanwhile
	FenceWaitingForZone         FenceStep = "WaitingForZone"         // too many nodes of its zone are unreachable
	FenceWaitingForPolicy       FenceStep = "WaitingForPolicy"       // the policy is gone, suspended, or cannot be used
	FenceWaitingForConfirmation FenceStep = "WaitingForConfirmation" // a person must say that the machine is off
	FenceCalling                FenceStep = "Calling"                // the request was written down and is sent
	FenceWaitingForProof        FenceStep = "WaitingForProof"        // the observation does not say off yet
	FenceTainting               FenceStep = "Tainting"               // it is proven off; the taint is being set
	FenceWaitingForPods         FenceStep = "WaitingForPods"         // pods are still bound to the node
	FenceWaitingForVolumes      FenceStep = "WaitingForVolumes"      // volumes are still attached to the node
	FenceWaitingForNewBoot      FenceStep = "WaitingForNewBoot"      // the node is cleared; the taint stays until the machine has booted anew
	FenceSameBoot               FenceStep = "SameBoot"               // the node answers with the boot that was proven off
	FenceUntainting             FenceStep = "Untainting"             // the taint is being taken away
	FenceEnded                  FenceStep = "Ended"
	FenceCancelled              FenceStep = "Cancelled" // the node came back before the proof
)

// NodeFenceStatus is what was done and seen. Usher alone writes it.
type NodeFenceStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Reconciling and Stalled, as kstatus reads them: Ready once the node is cleared.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	Step FenceStep `json:"step,omitempty"`
	// StepTime is when the step began.
	// +optional
	StepTime *metav1.Time `json:"stepTime,omitempty"`
	// Zone is that of the node when the fence was begun, empty where it had none.
	// +optional
	Zone string `json:"zone,omitempty"`
	// RequestTime is when the machine was to be turned off first, LastRequestTime when last. They are written before the request is sent.
	// +optional
	RequestTime *metav1.Time `json:"requestTime,omitempty"`
	// +optional
	LastRequestTime *metav1.Time `json:"lastRequestTime,omitempty"`
	// Requests is how many were sent.
	// +optional
	Requests int32 `json:"requests,omitempty"`
	// RequestResult is what became of the last one; it is Unknown from when it was written down until its answer is.
	// +optional
	RequestResult RequestResult `json:"requestResult,omitempty"`
	// RequestMessage is what was answered.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	RequestMessage string `json:"requestMessage,omitempty"`
	// RequestPolicy is by which version of the policy the last one was made, as UID/generation: another may mean another machine.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	RequestPolicy string `json:"requestPolicy,omitempty"`
	// Observation is what was observed of the machine last.
	// +optional
	Observation *FenceObservation `json:"observation,omitempty"`
	// ProvenTime is when it was proven that the machine is off; ProvenBy is what proves it.
	// +optional
	ProvenTime *metav1.Time `json:"provenTime,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ProvenBy string `json:"provenBy,omitempty"`
	// Taint says whose the taint node.kubernetes.io/out-of-service on the node is. It is written before the taint is set; one that
	// another client has set stays when the fence ends.
	// +optional
	Taint TaintOrigin `json:"taint,omitempty"`
	// ClearedTime is when no pod was bound to the node any more that does not tolerate the taint, and no volume attached.
	// +optional
	ClearedTime *metav1.Time `json:"clearedTime,omitempty"`
	// EndTime is when the fence ended or was cancelled. A day later it is deleted.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
}

// FenceObservation is what was answered when the machine was looked at.
type FenceObservation struct {
	Time metav1.Time `json:"time"`
	// State is Off, On, or Unknown where there was no answer that says either.
	State PowerState `json:"state"`
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// PowerState is what an observation says of a machine.
//
// +kubebuilder:validation:Enum=Off;On;Unknown
type PowerState string

// The states.
const (
	PowerOff     PowerState = "Off"
	PowerOn      PowerState = "On"
	PowerUnknown PowerState = "Unknown"
)

// RequestResult is what became of a request to turn a machine off.
//
// +kubebuilder:validation:Enum=Unknown;Accepted;Refused;NotSent
type RequestResult string

// The results.
const (
	RequestUnknown  RequestResult = "Unknown"  // it may have been received
	RequestAccepted RequestResult = "Accepted" // it was answered with success
	RequestRefused  RequestResult = "Refused"  // it was answered with a refusal
	RequestNotSent  RequestResult = "NotSent"  // no connection came about
)

// TaintOrigin says whose a taint is.
//
// +kubebuilder:validation:Enum=Usher;Other
type TaintOrigin string

// The origins.
const (
	TaintByUsher TaintOrigin = "Usher"
	TaintByOther TaintOrigin = "Other"
)

// OutOfServiceValue is the value of the taint node.kubernetes.io/out-of-service where Usher has set it.
const OutOfServiceValue = "usher"

// Over reports whether nothing more is done for the fence.
func (s *NodeFenceStatus) Over() bool { return s.Step == FenceEnded || s.Step == FenceCancelled }
