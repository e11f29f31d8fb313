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
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="System",type=string,JSONPath=`.status.system.kind`
// +kubebuilder:printcolumn:name="Members",type=integer,JSONPath=`.status.memberCount`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Last Observed",type=date,JSONPath=`.status.system.lastObservedTime`
// +kubebuilder:printcolumn:name="Summary",type=string,JSONPath=`.status.system.summary`
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
//
// +kubebuilder:validation:XValidation:rule="!has(self.serviceAccountName) || has(self.system.kubernetes) || has(self.nodeLock) || self.members.exists(m, has(m.provider) && has(m.provider.patch))",message="serviceAccountName is for system kubernetes, for provider.patch and for nodeLock: other systems are asked with the credentials in spec.system"
// +kubebuilder:validation:XValidation:rule="has(self.serviceAccountName) || !self.members.exists(m, has(m.provider) && has(m.provider.patch))",message="provider.patch needs serviceAccountName: objects are read and patched as that ServiceAccount only"
// +kubebuilder:validation:XValidation:rule="has(self.serviceAccountName) || !has(self.nodeLock)",message="nodeLock needs serviceAccountName: nodes are patched as that ServiceAccount only"
// +kubebuilder:validation:XValidation:rule="!has(self.system.foundationdb) || duration(self.evidence.timeout) >= duration('15s') && duration(self.evidence.maxAge) >= duration('20s')",message="system foundationdb needs evidence.timeout of at least 15s and evidence.maxAge of at least 20s: its status takes seconds while a process is freshly dead"
type EvictionPolicySpec struct {
	// Mode says what becomes of evictions and DELETEs that the policy does not allow: they are refused (Enforce), or let
	// through, with a warning, an event and a metric that say that they would have been refused (Audit). A policy in mode Audit
	// has no other effect: nothing is prepared for it, no pod is evicted, and none is created otherwise.
	// +optional
	// +kubebuilder:default=Enforce
	Mode PolicyMode `json:"mode,omitempty"`

	// System is what the members belong to.
	System System `json:"system"`

	// Evidence says how old what the system says may be, and how long it may take to say it.
	// +optional
	// +kubebuilder:default={}
	Evidence EvidenceLimits `json:"evidence,omitzero"`

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

	// ServiceAccountName is a ServiceAccount of the policy's namespace that Usher impersonates when it scales workloads for this
	// policy (system kubernetes; without it Usher uses its own rights), when it patches objects for a successor (provider.patch; only
	// with it), and when it labels and locks nodes (nodeLock; only with it). Who sets it for the latter two needs the right to impersonate it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// Repair says when a member that is unhealthy gets a successor. Without it nothing is looked at.
	// +optional
	Repair *Repair `json:"repair,omitempty"`

	// NodeLock has members wait for each other on a node by a label and annotations of the Node, as other operators understand them. Who sets
	// it needs the right to patch nodes, and so does serviceAccountName.
	// +optional
	NodeLock *NodeLock `json:"nodeLock,omitempty"`

	// Suspend stops everything that Usher does for this policy: no preparation is started and no pod is evicted. Its
	// pods stay governed: what asks for their eviction is refused.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// Audited reports whether the policy refuses nothing.
func (s *EvictionPolicySpec) Audited() bool { return s.Mode == ModeAudit }

// PolicyMode says whether what a policy does not allow is refused.
//
// +kubebuilder:validation:Enum=Enforce;Audit
type PolicyMode string

// The modes. A policy without one is enforced.
const (
	ModeEnforce PolicyMode = "Enforce"
	ModeAudit   PolicyMode = "Audit"
)

// MemberSelector says which pods are members, in which role.
//
// +kubebuilder:validation:XValidation:rule="!has(self.emptyOn) || self.emptyOn != 'Cordon' || has(self.leaves) && self.leaves == 'Load'",message="emptyOn: Cordon needs leaves: Load: a pod that leaves its node is evicted by who drains it"
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

	// Deletes says what a DELETE of the pod means that does not come from the kubelet, the garbage collector, the
	// namespace's deletion or the pod's own controller: an eviction, answered from the verdict (Guard), or nothing that
	// concerns Usher (Allow).
	// +optional
	// +kubebuilder:default=Guard
	Deletes DeleteMode `json:"deletes,omitempty"`

	// OwnerDeletes says what a DELETE by the pod's own controller means, a StatefulSet's rolling update or scale-down, say:
	// an eviction as well (Guard), which the controller tries again until the verdict lets the pod go, or nothing that
	// concerns Usher (Allow). Only Kubernetes' own controllers are meant; pods that have ended, or whose verdict is Never,
	// are let through in any case.
	// +optional
	// +kubebuilder:default=Guard
	OwnerDeletes DeleteMode `json:"ownerDeletes,omitempty"`

	// Controllers are users who know themselves when they may DELETE the pod, and are let through: the service account of a
	// database's operator, say ("system:serviceaccount:NAMESPACE:NAME").
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=set
	Controllers []string `json:"controllers,omitempty"`

	// LeavesAfter are roles of this policy whose members must have left the node before this entry's may leave the same one. It goes
	// before waves, priorities and the annotation usher.sh/order, and nothing is prepared before. Roles must not wait for each other
	// in a circle.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	LeavesAfter []string `json:"leavesAfter,omitempty"`

	// Leaves says what leaves the node: the pod (Pod), or what the pod carries, while it stays (Load), as a DaemonSet's pod that looks
	// after virtual machines does. With Load the pod is never evicted. It is prepared as others are, and counts as emptied once its
	// role's rules for eviction pass while an EvictionRequest stands for it; a drain is done with it then. Who withdraws the request,
	// as giving its node back does, has what was prepared undone.
	// +optional
	// +kubebuilder:default=Pod
	Leaves LeavesMode `json:"leaves,omitempty"`

	// EmptyOn says what has a pod that stays (leaves: Load) emptied: an EvictionRequest (Request), as drains of Usher and maintenances make
	// it, or the cordon of its node as well (Cordon), whoever cordons it. Then Usher itself requests it for as long as the node is
	// unschedulable, also for a pod that is created anew meanwhile.
	// +optional
	// +kubebuilder:default=Request
	EmptyOn EmptyMode `json:"emptyOn,omitempty"`

	// Tolerations says whose apply where the pod's author and its role both say how long a taint is tolerated, on pods that exist as well.
	// +optional
	// +kubebuilder:default=KeepOwn
	Tolerations TolerationMode `json:"tolerations,omitempty"`

	// OnNodePressure says what becomes of the pod when its node has run short of something past a hard threshold and no
	// other pod can help: it stays unless its verdict is Allowed (WhenAllowed), or it goes although it is blocked, with
	// the reason written on it (LastResort).
	// +optional
	// +kubebuilder:default=WhenAllowed
	OnNodePressure PressureMode `json:"onNodePressure,omitempty"`

	// Provider says how a successor comes about where a member is replaced, by a ReplacementRequest. Without one, the role's rules for
	// replacement are judged, and no member is replaced.
	// +optional
	Provider *Provider `json:"provider,omitempty"`
}

// EvictionPolicyStatus is what Usher saw and did.
type EvictionPolicyStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Reconciling and Stalled, as kstatus reads them.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// MemberCount is how many members have a pod now.
	// +optional
	MemberCount int32 `json:"memberCount"`
	// +optional
	// +listType=map
	// +listMapKey=role
	Roles []RoleStatus `json:"roles,omitempty"`
	// Blocked are members that stay and may not leave now, each with its first blocker: the first 20 by role and id. memberCount less the
	// roles' evictableCounts is how many there are, with those that are on their way; usher why POD has all blockers of one.
	// +optional
	// +listType=map
	// +listMapKey=role
	// +listMapKey=id
	// +listMapKey=podUID
	// +kubebuilder:validation:MaxItems=20
	Blocked []BlockedMember `json:"blocked,omitempty"`
	// +optional
	System SystemStatus `json:"system,omitempty"`

	// Epoch counts the changes of Leaving. Evidence counts only if its observer knew this number.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// Leaving are the members that may go and were not seen gone. An entry is written before its eviction is let through.
	// +optional
	// +listType=map
	// +listMapKey=role
	// +listMapKey=id
	// +listMapKey=podUID
	// +kubebuilder:validation:MaxItems=1000
	Leaving []Leaving `json:"leaving,omitempty"`
	// Emptied are members whose pods stay (leaves: Load) and from whose nodes all that they carry has left, for as long as that is so
	// and an EvictionRequest stands.
	// +optional
	// +listType=map
	// +listMapKey=role
	// +listMapKey=id
	// +listMapKey=podUID
	// +kubebuilder:validation:MaxItems=1000
	Emptied []Emptied `json:"emptied,omitempty"`
	// Replacing are the members that are being replaced. An entry is written before anything of its member is removed, and stays until the
	// successor does its work: until then the member counts as one that is on its way.
	// +optional
	// +listType=map
	// +listMapKey=role
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=100
	Replacing []Replacing `json:"replacing,omitempty"`
	// Unhealthy are the members that something is wrong with, where spec.repair is set, and those on cordoned nodes, of which it is remembered where
	// they are: 100 at most, those for which there is or was a request first, then those that are unhealthy for longest.
	// +optional
	// +listType=map
	// +listMapKey=role
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=100
	Unhealthy []UnhealthyMember `json:"unhealthy,omitempty"`
	// NodeLock is there where spec.nodeLock cannot be carried out on all nodes.
	// +optional
	NodeLock *NodeLockStatus `json:"nodeLock,omitempty"`
	// Departed are pods that are gone and for which callers were refused before, as long as these may ask again by name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Departed []Departed `json:"departed,omitempty"`
	// Preparations are the steps that were begun and neither undone nor overtaken. An entry is written before the system
	// is asked.
	// +optional
	// +listType=map
	// +listMapKey=role
	// +listMapKey=id
	// +listMapKey=podUID
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	Preparations []PreparationStatus `json:"preparations,omitempty"`
}

// RoleStatus counts the members of one role.
type RoleStatus struct {
	Role        string `json:"role"`
	MemberCount int32  `json:"memberCount"`
	// EvictableCount is how many have the verdict Allowed, each taken by itself.
	EvictableCount int32 `json:"evictableCount"`
}

// BlockedMember is a member that may not leave its node now.
type BlockedMember struct {
	MemberRef `json:",inline"`

	// Rule is the rule of its role that does not pass, empty where the blocker is no rule's.
	// +optional
	Rule string `json:"rule,omitempty"`
	// Reason is CamelCase, for machines.
	Reason string `json:"reason"`
	// Message says what is wrong and what it waits for. It is renewed with LastObservedTime.
	Message string `json:"message"`
}

// SystemStatus is what the system said last.
type SystemStatus struct {
	// Kind is the field of spec.system that is set.
	// +optional
	Kind string `json:"kind,omitempty"`
	// LastObservedTime is when the newest evidence was complete, renewed once a minute while nothing changes.
	// +optional
	LastObservedTime *metav1.Time `json:"lastObservedTime,omitempty"`
	// Summary is what it said, in a line.
	// +optional
	Summary string `json:"summary,omitempty"`
	// Error is why it could not be asked, empty while it can.
	// +optional
	Error string `json:"error,omitempty"`
}

// MemberRef names a member of a system. It need not have a pod.
type MemberRef struct {
	// Role is the name of its role.
	// +kubebuilder:validation:MaxLength=63
	Role string `json:"role"`
	// ID is what its system knows it by: one of a kind among the policy's members, or among those of its role where ids are those of hosts (openstack).
	// +kubebuilder:validation:MaxLength=1024
	ID string `json:"id"`
	// PodName is its pod's name, empty where it has none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PodName string `json:"podName,omitempty"`
	// PodUID is its pod's UID, empty where it has none.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	PodUID types.UID `json:"podUID"`
	// Node is the one that its pod is bound to, empty where that is not known.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
}

// Leaving is a member that may go.
type Leaving struct {
	MemberRef `json:",inline"`

	// StartTime is when the eviction was let through last, or when the pod was seen to go without one.
	StartTime metav1.Time `json:"startTime"`
	// Requester is the client that was let through. It is empty where the pod goes, or has gone, without a permit: removed by its kubelet, say.
	Requester string `json:"requester"`
	// LingerSeconds is how long after StartTime the member counts although its pod was seen gone: it was removed without
	// waiting for its process to end.
	// +optional
	LingerSeconds int64 `json:"lingerSeconds,omitempty"`
	// GoneTime is when the pod was seen gone, where its role lets the member count for longer (evict.settle).
	// +optional
	GoneTime *metav1.Time `json:"goneTime,omitempty"`
	// Refused are the requesters, beside the one that was let through, that admission has refused for the pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Refused []string `json:"refused,omitempty"`
}

// Emptied is a member whose pod stays and carries nothing any more.
type Emptied struct {
	MemberRef `json:",inline"`

	// StartTime is since when.
	StartTime metav1.Time `json:"startTime"`
}

// Replacing is a member that is being replaced.
type Replacing struct {
	// Role is the name of its role, ID its id.
	// +kubebuilder:validation:MaxLength=63
	Role string `json:"role"`
	// +kubebuilder:validation:MaxLength=1024
	ID string `json:"id"`
	// Request is the name of its ReplacementRequest, RequestUID its UID.
	// +kubebuilder:validation:MaxLength=253
	Request string `json:"request"`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	RequestUID types.UID `json:"requestUID"`
	// StartTime is since when.
	StartTime metav1.Time `json:"startTime"`
}

// Departed is a pod that is gone, and whose name another pod may have by now.
type Departed struct {
	// PodUID is the UID that it had.
	PodUID types.UID `json:"podUID"`
	// PodName is the name that it had.
	PodName string `json:"podName"`
	// Node is the one that it ran on.
	Node string `json:"node"`
	// Refused are the requesters that admission has refused for the pod, and that may not know that it is gone.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Refused []string `json:"refused"`
	// GoneTime is when it was seen gone.
	GoneTime metav1.Time `json:"goneTime"`
}

// PreparationStatus is a step that makes a member safe to leave.
type PreparationStatus struct {
	// MemberRef is the member, and the pod for which the step was begun.
	MemberRef `json:",inline"`

	// Name is that of the step in its role.
	Name string `json:"name"`
	// For says what the step is for: the member's eviction (Evict, also where it is empty), or its node, which is proven off (Lost).
	// +optional
	For PreparationPurpose `json:"for,omitempty"`
	// StartTime is when the step was begun.
	StartTime metav1.Time `json:"startTime"`
	// LastRequestTime is when the system was asked last.
	LastRequestTime metav1.Time `json:"lastRequestTime"`
	// State is Begun, or Undoing after the last requester has withdrawn.
	// +kubebuilder:validation:Enum=Begun;Undoing
	State PreparationState `json:"state"`
	// Message is what the system says of it. Of a step for a node that is proven off it is, where the system says nothing, what is being done; empty once
	// nothing is to be asked for.
	// +optional
	Message string `json:"message,omitempty"`
	// RemainingAtStart is how much there was to do when the step was begun, as its role counts it; 0 where it does not.
	// +optional
	RemainingAtStart int64 `json:"remainingAtStart,omitempty"`
	// Remaining is how much there was to do when the system was asked last, and of a step for a node that is proven off how much is left.
	// +optional
	Remaining int64 `json:"remaining,omitempty"`
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

// LostAsked reports whether the system was asked for a step that stands for a node which is proven off. Such a step is written down before.
func (p *PreparationStatus) LostAsked() bool {
	return p.For == ForLost && (p.Job != "" || !p.LastRequestTime.Equal(&p.StartTime))
}

// PreparationPurpose says what a step is for.
//
// +kubebuilder:validation:Enum=Evict;Lost
type PreparationPurpose string

// The purposes.
const (
	ForEvict PreparationPurpose = "Evict"
	ForLost  PreparationPurpose = "Lost"
)

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
