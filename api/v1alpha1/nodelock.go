package v1alpha1

// NodeLock is an order on nodes between members that need another one there and the one that they need, kept by a label and annotations of the Node,
// so that other operators can take part in it. The label is "False" while the waiter does its work and "True" when it has to go, and stays
// when it is gone. A holder has an annotation on its node for as long as it is there; the waiter stays until there is none.
//
// +kubebuilder:validation:XValidation:rule="has(self.waiter) || has(self.holders)",message="name holders, a waiter or both: without either nothing of this policy takes part"
type NodeLock struct {
	// StateLabel is the key of the label, DOMAIN/NAME. Domains of Kubernetes and of Usher are refused.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=317
	StateLabel string `json:"stateLabel"`
	// LockPrefix is the domain of the annotations: PREFIX/NAME. Domains of Kubernetes and of Usher are refused.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	LockPrefix string `json:"lockPrefix"`
	// Holders are roles of this policy whose members need the waiter on their node: they get a node affinity for the label "False" when they are
	// created, hold a lock of their role while one of them is on the node, and are asked to leave a node whose label is "True". Without them no
	// lock is written.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Holders []string `json:"holders,omitempty"`
	// Waiter is the role of this policy whose members the label speaks of. One of them leaves its node when no lock is on it, whoever has set it.
	// Without it the label is another operator's, and never written.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Waiter string `json:"waiter,omitempty"`
}

// The values of NodeLock.StateLabel.
const (
	// NodeLockServes: the waiter does its work there.
	NodeLockServes = "False"
	// NodeLockLeaves: it has to go, or is gone.
	NodeLockLeaves = "True"
)

// NodeLockStatus is what keeps the nodes from being labelled and locked as they should.
type NodeLockStatus struct {
	// Blockers are at most 20, by node.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	Blockers []NodeLockBlocker `json:"blockers,omitempty"`
}

// NodeLockBlocker is one thing that keeps the label or the locks of a node from being what they should.
type NodeLockBlocker struct {
	// Node is its name, empty where no node can be written.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// Reason is CamelCase, for machines.
	Reason string `json:"reason"`
	// Message says what is wrong and what it waits for, Remedy what a person can do about it.
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
}
