package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// System says what the members belong to and how it is reached. Exactly one field is set.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type System struct {
	// +optional
	ArangoDB *ArangoDB `json:"arangodb,omitempty"`
	// +optional
	Etcd *Etcd `json:"etcd,omitempty"`
	// +optional
	FoundationDB *FoundationDB `json:"foundationdb,omitempty"`
	// +optional
	HTTP *HTTP `json:"http,omitempty"`
	// +optional
	Kubernetes *Kubernetes `json:"kubernetes,omitempty"`
	// +optional
	OpenStack *OpenStack `json:"openstack,omitempty"`
}

// EvidenceLimits say how what the system says is used.
type EvidenceLimits struct {
	// MaxAge is how old evidence may be when it decides: 1s to 1m, and longer than the system takes to answer. Default: 10s.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1m')",message="must be from 1s to 1m: what is older says nothing, and what must be younger is never there in time"
	MaxAge metav1.Duration `json:"maxAge,omitzero"`
	// Timeout is how long one call may take, 1s to 30s. Default: 5s.
	// +optional
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('30s')",message="must be from 1s to 30s"
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// What MaxAge and Timeout may be, as the schema has it.
const (
	MinMaxAge  = time.Second
	MaxMaxAge  = time.Minute
	MinTimeout = time.Second
	MaxTimeout = 30 * time.Second
)

// Access is where a system listens, and how it and Usher authenticate to each other.
//
// +kubebuilder:validation:XValidation:rule="has(self.endpoints) != has(self.service)",message="set either endpoints or service"
type Access struct {
	// Endpoints are URLs: https://db-0.db:2379.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=2048
	// +listType=set
	Endpoints []string `json:"endpoints,omitempty"`
	// Service is a Service in the policy's namespace.
	// +optional
	Service *Service `json:"service,omitempty"`
	// CA is the certificate authority (PEM) that signed the system's certificates. Default: those of the machine.
	// +optional
	CA *SecretKey `json:"ca,omitempty"`
	// ClientCertificate is a Secret with tls.crt and tls.key.
	// +optional
	ClientCertificate *SecretName `json:"clientCertificate,omitempty"`
	// ServerName is the name that certificates must carry, where it is not the endpoint's.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`
}

// Service names a Service and its port.
type Service struct {
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// +optional
	// +kubebuilder:default=https
	// +kubebuilder:validation:Enum=http;https
	Scheme string `json:"scheme,omitempty"`
}

// SecretName names a Secret in the policy's namespace.
type SecretName struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// SecretKey names one entry of a Secret in the policy's namespace.
type SecretKey struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// ArangoDB is a deployment of ArangoDB: a cluster, an active failover pair or a single server.
type ArangoDB struct {
	// Access leads to coordinators or single servers.
	Access `json:",inline"`
	// Agents leads to the agency. Default: the endpoints that the cluster's health names.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=2048
	// +listType=set
	Agents []string `json:"agents,omitempty"`
	// JWT is the secret with which servers sign tokens; none: authentication is off.
	// +optional
	JWT *SecretKey `json:"jwt,omitempty"`
}

// Etcd is an etcd cluster.
type Etcd struct {
	Access `json:",inline"`
	// Auth is a Secret with username and password.
	// +optional
	Auth *SecretName `json:"auth,omitempty"`
	// MaxLag is how many entries a voter may be behind the leader and still count as caught up. Default: 1000.
	// +optional
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=0
	MaxLag int64 `json:"maxLag,omitempty"`
}

// HTTP is any system that answers JSON over HTTP.
type HTTP struct {
	Access `json:",inline"`
	// Headers are sent with every request.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Headers []Header `json:"headers,omitempty"`
	// Facts are asked of the system as a whole: `system.NAME` is the answer.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	Facts []Get `json:"facts,omitempty"`
	// MemberFacts are asked for each member: `member.NAME` is the answer.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	MemberFacts []Get `json:"memberFacts,omitempty"`
	// Summary is CEL over `system` that gives a line for status. Default: nothing.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Summary string `json:"summary,omitempty"`
	// Steps are what roles name in evict.prepare.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	Steps []Step `json:"steps,omitempty"`
	// Replace says what is asked of the system when a member is replaced; {}: nothing need be. Without it members of roles with the successor
	// NewIdentity are not replaced.
	// +optional
	Replace *ReplaceSteps `json:"replace,omitempty"`
}

// Header is a header of a request.
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.secret)",message="set either value or secret"
type Header struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value,omitempty"`
	// +optional
	Secret *SecretKey `json:"secret,omitempty"`
}

// Get is one question.
type Get struct {
	// +kubebuilder:validation:Pattern=`^[a-z][A-Za-z0-9]*$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// URL is a path below the endpoint, or a whole URL; {{expression}} (CEL over member and pod) is replaced by its value,
	// escaped: "/_nodes/{{member.id}}/stats", "http://{{pod.ip}}:9200/_nodes/_local".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
}

// Step is a request that makes a member safe to leave, and the one that takes it back.
type Step struct {
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	Do   Call   `json:"do"`
	// Undo is sent when the last requester has withdrawn. None: the step needs no undoing.
	// +optional
	Undo *Call `json:"undo,omitempty"`
}

// ReplaceSteps are what is asked of a system when a member is replaced, in their order. Predecessor and successor have the same id.
type ReplaceSteps struct {
	// Leave is asked for before anything of the member is removed. It is not taken back.
	// +optional
	// +kubebuilder:validation:MaxItems=4
	// +listType=map
	// +listMapKey=name
	Leave []ReplaceStep `json:"leave,omitempty"`
	// Join is asked for once the successor's pod is Ready.
	// +optional
	// +kubebuilder:validation:MaxItems=4
	// +listType=map
	// +listMapKey=name
	Join []ReplaceStep `json:"join,omitempty"`
}

// ReplaceStep is a request, and what shows that it is done.
type ReplaceStep struct {
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Do is sent until Done holds.
	Do Call `json:"do"`
	// Done is CEL over `member` and `system`: the step is done, whoever did it. What cannot be evaluated is not done.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Done string `json:"done"`
}

// Call is a request that changes something. It must be idempotent.
type Call struct {
	// +kubebuilder:validation:Enum=POST;PUT;PATCH;DELETE
	Method string `json:"method"`
	// URL is a template like a question's.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
	// Body is JSON; {{expression}} is replaced by its value as JSON.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Body string `json:"body,omitempty"`
}

// Kubernetes is what runs plain workloads: its members are pods of Deployments, StatefulSets, Argo Rollouts and other kinds
// with the subresource scale.
type Kubernetes struct {
	// StatefulSets says whether a StatefulSet may be scaled up before one of its pods leaves: Keep (default), or Surge where any
	// of its pods can do the work of another, and one more does no harm.
	// +optional
	// +kubebuilder:default=Keep
	StatefulSets StatefulSetMode `json:"statefulSets,omitempty"`
}

// StatefulSetMode says whether StatefulSets are scaled up before their pods leave.
//
// +kubebuilder:validation:Enum=Keep;Surge
type StatefulSetMode string

// The modes.
const (
	StatefulSetsKeep  StatefulSetMode = "Keep"
	StatefulSetsSurge StatefulSetMode = "Surge"
)
