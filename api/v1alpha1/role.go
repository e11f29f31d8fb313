package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Role says of one kind of member what state it holds, when it may leave its node, what has to be done first, and what
// may take its place. Built-in roles are YAML files of this type.
type Role struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Description says in a sentence what the member is.
	// +optional
	Description string `json:"description,omitempty"`
	// System is the field of spec.system whose facts the rules speak of: arangodb, say.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	System string `json:"system"`
	// State is what is lost with the pod unless it is moved before.
	State State `json:"state"`
	// Identity is what the system knows the member by.
	Identity Identity `json:"identity"`
	// Tolerations are set on pods, when they are created and on those that exist. Where a pod's author has set some for the same key and effect,
	// spec.members[].tolerations says which of them apply.
	// +optional
	Tolerations Tolerations `json:"tolerations,omitempty"`
	Evict       Evict       `json:"evict"`
	Replace     Replace     `json:"replace"`
	// Lost says what is done for a member whose node is proven off (NodeFence), where nothing takes the member's place and what it carries can be brought
	// back elsewhere. With it the member's pod may be removed there once its steps stand in the policy's status, whatever Replace says.
	// +optional
	Lost *Lost `json:"lost,omitempty"`
}

// State is what a member holds.
//
// +kubebuilder:validation:Enum=None;Memory;Persistent
type State string

// The states.
const (
	StateNone       State = "None"
	StateMemory     State = "Memory"
	StatePersistent State = "Persistent"
)

// Identity is what a system knows a member by.
//
// +kubebuilder:validation:Enum=None;Address;Unique
type Identity string

// The identities.
const (
	IdentityNone    Identity = "None"
	IdentityAddress Identity = "Address"
	IdentityUnique  Identity = "Unique"
)

// Tolerations say how long a member's pod stays bound to a node that is not ready or not reachable.
type Tolerations struct {
	// +optional
	NotReady *Toleration `json:"notReady,omitempty"`
	// +optional
	Unreachable *Toleration `json:"unreachable,omitempty"`
}

// Toleration is a time, or for ever. For ever is a toleration without seconds: with no toleration at all the apiserver
// would set 300 s.
//
// +kubebuilder:validation:XValidation:rule="has(self.forever) && self.forever ? !has(self.seconds) : has(self.seconds)",message="set either seconds or forever"
type Toleration struct {
	// +optional
	// +kubebuilder:validation:Minimum=0
	Seconds *int64 `json:"seconds,omitempty"`
	// +optional
	Forever bool `json:"forever,omitempty"`
}

// Evict says when a member may leave its node.
type Evict struct {
	// Rules must all pass. None: it may always leave.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Rules []Rule `json:"rules,omitempty"`
	// Prepare are steps that make rules pass, in this order.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	Prepare []Preparation `json:"prepare,omitempty"`
	// AtOnce is how many members of this role may be on their way at the same time; 0: any number. Default: 1, and any
	// number where State is None.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AtOnce *int32 `json:"atOnce,omitempty"`
	// MinReady is how many other members of this role must have a Ready pod that stays; 0: none. It is a floor where no
	// PodDisruptionBudget is, and needs no answer of the system. It holds no member whose own pod is not Ready. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReady *int32 `json:"minReady,omitempty"`
	// Settle is how long a member counts as leaving after its pod was seen gone, 0s to 10m, unless a Ready pod has its id
	// before: longer than the system takes to find out that it is away. Until then the system may tell of a healthy member
	// that is not there. Default: 30s where State is Persistent, else 0s. It is 10s at least where a role of the policy sets
	// MinReady or has a rule that asks for unready, since so long a replica of Usher may still see the pod Ready.
	// +optional
	Settle *metav1.Duration `json:"settle,omitempty"`
}

// Rule is one condition over evidence.
type Rule struct {
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Reason is CamelCase, for machines.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Reason string `json:"reason"`
	// Expression is CEL over member, system, pod and node; true: the rule passes. What cannot be evaluated does not pass.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression"`
	// Message says what is wrong and what it waits for; {{expression}} is replaced by its value.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message"`
	// Remedy says what a person can do about it, a template like Message.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Remedy string `json:"remedy,omitempty"`
	// Never: if the rule does not pass, no waiting and no preparation will change that.
	// +optional
	Never bool `json:"never,omitempty"`
}

// Preparation is a step that the system is asked for.
type Preparation struct {
	// Name is the step, as the system knows it: CleanOut, ResignLeadership, MoveLeader, or one in spec.system.http.
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// When is CEL like a rule's; true: the step is needed and may be asked for now.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	When string `json:"when"`
	// Message says what is being done and how far it is, a template like a rule's.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message"`
	// ExpectedDuration is how long the step takes as a rule. With it, or with Remaining, Usher says when it expects it to be done.
	// +optional
	ExpectedDuration metav1.Duration `json:"expectedDuration,omitzero"`
	// Remaining is CEL of type int: how much is still to be done, in whatever is counted (shards, say). When the step will be
	// done is estimated from the pace since it was begun.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Remaining string `json:"remaining,omitempty"`
}

// Replace says when another member may take over.
type Replace struct {
	// Rules must all pass. None: it may always be replaced.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Rules []Rule `json:"rules,omitempty"`
	// Successor is what takes over: a member with a new identity, the same one with its disk wiped, or any pod, since the member
	// has none that matters.
	Successor Successor `json:"successor"`
}

// Lost says what is done for a member whose node is proven off.
type Lost struct {
	// Prepare are steps that the system is asked for, in this order, each for as long as its When holds. Their expressions are over member, system and now:
	// the pod may be gone. They are taken back once the node answers again.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	Prepare []Preparation `json:"prepare,omitempty"`
}

// Successor says what takes a member's place.
//
// +kubebuilder:validation:Enum=NewIdentity;SameIdentity;AnyPod;None
type Successor string

// Who takes a member's place.
const (
	SuccessorNewIdentity  Successor = "NewIdentity"
	SuccessorSameIdentity Successor = "SameIdentity"
	SuccessorAnyPod       Successor = "AnyPod"
	SuccessorNone         Successor = "None"
)
