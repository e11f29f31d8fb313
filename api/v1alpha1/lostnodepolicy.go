package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LostNodePolicy says when a node that has fallen silent is fenced, how, and what follows. Only admins of the cluster write it: it
// powers machines off.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=lnp,categories=usher
// +kubebuilder:printcolumn:name="After",type=string,JSONPath=`.spec.unreachableAfter`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodeCount`
// +kubebuilder:printcolumn:name="Lost",type=integer,JSONPath=`.status.unreachableCount`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LostNodePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   LostNodePolicySpec   `json:"spec"`
	Status LostNodePolicyStatus `json:"status,omitempty"`
}

// LostNodePolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type LostNodePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []LostNodePolicy `json:"items"`
}

// LostNodePolicySpec is what an admin declares.
type LostNodePolicySpec struct {
	// NodeSelector selects the nodes by their labels; {} selects all. A node that two policies select is fenced by neither.
	NodeSelector metav1.LabelSelector `json:"nodeSelector"`

	// UnreachableAfter is how long a node must have been unreachable, 1m to 24h: its Ready condition is Unknown and its Lease was not
	// renewed. Default: 5m.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="must be from 1m to 24h: a shorter silence is a restart or a busy network"
	UnreachableAfter metav1.Duration `json:"unreachableAfter,omitzero"`

	// Fence is how a machine is turned off, and what proves that it is.
	Fence Fence `json:"fence"`

	// Then is what follows the proof. OutOfService: the taint node.kubernetes.io/out-of-service, by which Kubernetes removes the
	// node's pods and detaches its volumes.
	// +optional
	// +kubebuilder:default=OutOfService
	Then LostNodeAction `json:"then,omitempty"`

	// MaxPerZone is how many nodes of one zone (topology.kubernetes.io/zone) may be unreachable or being fenced at once, 1 to 100. Where
	// there are more, no fence is begun in that zone: a silent zone is a broken network. Nodes without a zone count as one. Default: 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxPerZone int32 `json:"maxPerZone,omitempty"`

	// Suspend stops new steps: no fence is begun, called for or observed, and no node is tainted. What is there stays, and is taken
	// back when its node is.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// What UnreachableAfter may be, as the schema has it.
const (
	MinUnreachableAfter = time.Minute
	MaxUnreachableAfter = 24 * time.Hour
)

// LostNodeAction is what follows the proof that a node is off.
//
// +kubebuilder:validation:Enum=OutOfService
type LostNodeAction string

// ThenOutOfService taints the node.
const ThenOutOfService LostNodeAction = "OutOfService"

// Fence turns a machine off. Exactly one field is set.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type Fence struct {
	// HTTP calls what controls the machine's power.
	// +optional
	HTTP *HTTPFence `json:"http,omitempty"`
	// Ironic asks OpenStack's bare-metal service.
	// +optional
	Ironic *IronicFence `json:"ironic,omitempty"`
	// Manual waits for a person's word: usher fence NODE --confirm.
	// +optional
	Manual *ManualFence `json:"manual,omitempty"`
}

// ManualFence has no fields.
type ManualFence struct{}

// HTTPFence is a request that turns a machine off, and one whose answer proves that it is.
//
// URL and Body are templates: {{expression}} (CEL over node: name, providerID, labels, addresses) is replaced by its value. What a
// kubelet can write, which is its addresses and all labels but those below node-restriction.kubernetes.io, is its claim: let the name or
// the provider's id choose the machine.
type HTTPFence struct {
	// +kubebuilder:validation:Enum=POST;PUT;PATCH;DELETE
	Method string `json:"method"`
	// URL begins with http:// or https://; values in it are escaped: "https://bmc.example.com/machines/{{node.name}}/power".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
	// Headers are sent with both requests. Secrets are those of the manager's own namespace.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Headers []Header `json:"headers,omitempty"`
	// Body is JSON; values in it are put in as JSON.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Body string `json:"body,omitempty"`
	// Timeout is how long one request may take, 1s to 30s. Default: 10s.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('30s')",message="must be from 1s to 30s"
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// CA is the certificate authority (PEM) that signed the certificates, in a Secret of the manager's own namespace. Default: those of
	// the machine.
	// +optional
	CA *SecretKey `json:"ca,omitempty"`
	// Repeat says whether the request may be sent again where it is not known whether it was received: Never, or Idempotent, where
	// sending it twice does what sending it once does. Default: Never.
	// +optional
	// +kubebuilder:default=Never
	Repeat RepeatMode `json:"repeat,omitempty"`
	// Observe is what proves that the machine is off. It is asked before the first request, too.
	Observe HTTPObservation `json:"observe"`
	// ProvenWithin is how long the proof may take from the first request, 1m to 24h. After that nothing is sent any more, the fence is
	// Stalled, and the observation goes on. Default: 10m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="must be from 1m to 24h"
	ProvenWithin metav1.Duration `json:"provenWithin,omitzero"`
}

// IronicFence has OpenStack Ironic power a machine off, which is proven by what Ironic says of its power after it has accepted the request: before
// that it is what was read at some time. Secrets are those of the manager's own namespace. A request whose answer is missing is sent again: a machine
// that is off stays so.
type IronicFence struct {
	// Clouds is a clouds.yaml, as OpenStack's own clients read it. It may not name files.
	Clouds SecretKey `json:"clouds"`
	// Cloud is the one of its entries that is used. Default: the only one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Cloud string `json:"cloud,omitempty"`
	// Region is a region of the cloud's catalog. Default: region_name of the entry, or the only one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Region string `json:"region,omitempty"`
	// CA is the certificate authority (PEM) that signed the certificates of all endpoints. Default: those of the machine.
	// +optional
	CA *SecretKey `json:"ca,omitempty"`
	// Node is a template like the URL of an HTTPFence, which gives the name or the UUID that Ironic has for the machine. What a kubelet can
	// write is its claim. Default: {{node.name}}.
	// +optional
	// +kubebuilder:default="{{node.name}}"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Node string `json:"node,omitempty"`
	// Timeout is how long one request may take, 1s to 30s. Default: 10s.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('30s')",message="must be from 1s to 30s"
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// ProvenWithin is how long the proof may take from the first request, 1m to 24h. After that nothing is sent any more, the fence is
	// Stalled, and the observation goes on. Default: 10m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="must be from 1m to 24h"
	ProvenWithin metav1.Duration `json:"provenWithin,omitzero"`
}

// RepeatMode says whether a request may be sent twice.
//
// +kubebuilder:validation:Enum=Never;Idempotent
type RepeatMode string

// The modes.
const (
	RepeatNever      RepeatMode = "Never"
	RepeatIdempotent RepeatMode = "Idempotent"
)

// HTTPObservation is a GET whose answer proves that a machine is off.
type HTTPObservation struct {
	// URL is a template like the fence's.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
	// Until is CEL of type bool over answer, the JSON that was answered, and node; true: the machine is off. What cannot be evaluated
	// proves nothing. It must hold for a machine that has no power alone, not for one that was merely asked to go off, nor for one of
	// which nothing is known: answer.PowerState == "Off".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Until string `json:"until"`
}

// LostNodePolicyStatus is what Usher saw.
type LostNodePolicyStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Reconciling and Stalled, as kstatus reads them.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// NodeCount is how many nodes are selected.
	// +optional
	NodeCount int32 `json:"nodeCount"`
	// UnreachableCount is how many of them are unreachable.
	// +optional
	UnreachableCount int32 `json:"unreachableCount"`
	// Unreachable are the first 20 of them by name.
	// +optional
	// +listType=map
	// +listMapKey=node
	// +kubebuilder:validation:MaxItems=20
	Unreachable []UnreachableNode `json:"unreachable,omitempty"`
}

// UnreachableNode is a node that does not answer.
type UnreachableNode struct {
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
	// Zone is empty where the node has none.
	// +optional
	Zone string `json:"zone,omitempty"`
	// StartTime is since when its Ready condition is Unknown.
	StartTime metav1.Time `json:"startTime"`
	// Fence is the name of its NodeFence, empty where none is begun.
	// +optional
	Fence string `json:"fence,omitempty"`
	// Message says what it waits for.
	Message string `json:"message"`
}
