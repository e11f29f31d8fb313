package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeMaintenance takes nodes out of service for one requester, and gives them back. Several may want one node: the tightest deadline and
// the least force win, and the node is given back once none wants it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nmt,categories=usher
// +kubebuilder:printcolumn:name="Requester",type=string,JSONPath=`.spec.requester`
// +kubebuilder:printcolumn:name="Planned",type=integer,JSONPath=`.status.counts.planned`
// +kubebuilder:printcolumn:name="Draining",type=integer,JSONPath=`.status.counts.draining`
// +kubebuilder:printcolumn:name="Drained",type=integer,JSONPath=`.status.counts.drained`
// +kubebuilder:printcolumn:name="Blocked",type=integer,JSONPath=`.status.counts.blocked`
// +kubebuilder:printcolumn:name="Done",type=integer,JSONPath=`.status.counts.done`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Deadline",type=date,JSONPath=`.spec.deadlineTime`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeMaintenance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NodeMaintenanceSpec   `json:"spec"`
	Status NodeMaintenanceStatus `json:"status,omitempty"`
}

// NodeMaintenanceList is a list of maintenances.
//
// +kubebuilder:object:root=true
type NodeMaintenanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeMaintenance `json:"items"`
}

// NodeMaintenanceSpec is what the requester wants. Its deadline can be tightened and it can be suspended; nodes and requester stay.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.deadlineTime) || has(self.deadlineTime) && timestamp(self.deadlineTime) <= timestamp(oldSelf.deadlineTime)",message="deadlineTime can only be tightened: delete this object and create another"
// +kubebuilder:validation:XValidation:rule="!has(self.atDeadline) || self.atDeadline == 'Stop' || has(self.deadlineTime)",message="atDeadline: DeletePods needs a deadlineTime"
// +kubebuilder:validation:XValidation:rule="(self.action == 'Taint') == has(self.taint)",message="taint goes with action: Taint, and has to be set then"
// +kubebuilder:validation:XValidation:rule="!(self.action in ['Cordon', 'Taint']) || has(self.whenDrained.keepCordoned)",message="action: Cordon and action: Taint go with whenDrained.keepCordoned: what they set stays until this object is deleted"
// +kubebuilder:validation:XValidation:rule="self.action != 'Hook' || has(self.whenDrained.hook) && !has(self.whenDrained.wait) && !has(self.whenDrained.keepCordoned) && !has(self.whenDrained.deleteNode)",message="action: Hook goes with whenDrained.hook, and with nothing else in whenDrained"
type NodeMaintenanceSpec struct {
	// Nodes says which nodes. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodes cannot be changed: create another object for other nodes"
	Nodes NodeSelection `json:"nodes"`
	// Reason says for people why. It is written on the nodes.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
	// Requester is who wants it, with a domain: person.usher.sh/anna, autoscaler.example.com/pool-a. It cannot be changed.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="requester cannot be changed"
	Requester string `json:"requester"`
	// Action says what is done to each node. It cannot be changed. But for Drain no pod leaves, and nothing of drain, concurrency, deadlineTime and
	// atDeadline applies. Default: Drain.
	// +optional
	// +kubebuilder:default=Drain
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="action cannot be changed: delete this object and create another"
	Action MaintenanceAction `json:"action,omitempty"`
	// Taint is set by action: Taint. It cannot be changed.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="taint cannot be changed: delete this object and create another"
	Taint *MaintenanceTaint `json:"taint,omitempty"`
	// Drain says which pods leave.
	// +optional
	// +kubebuilder:default={}
	Drain MaintenanceDrain `json:"drain,omitzero"`
	// Concurrency says how much of the cluster may be out of service at once, over all maintenances.
	// +optional
	// +kubebuilder:default={}
	Concurrency MaintenanceConcurrency `json:"concurrency,omitzero"`
	// DeadlineTime is when the drains have to be over. It can only be tightened.
	// +optional
	DeadlineTime *metav1.Time `json:"deadlineTime,omitempty"`
	// AtDeadline says what happens to pods that are still held then: they stay and the node is reported as blocked (Stop), or they are
	// deleted past what holds them, in safety order, before it (DeletePods).
	// +optional
	// +kubebuilder:default=Stop
	AtDeadline DeadlineAction `json:"atDeadline,omitempty"`
	// WhenDrained says what happens to a node that is drained: the hook is called, then its end is waited for, then the node is kept
	// cordoned, deleted, or given back.
	// +optional
	// +kubebuilder:default={keepCordoned: {}}
	WhenDrained WhenDrained `json:"whenDrained,omitzero"`
	// Suspend begins nothing more: no node is begun, drains under way end, and what they asked for is withdrawn. Nodes stay cordoned.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// MaintenanceAction says what is done to a node.
//
// +kubebuilder:validation:Enum=Drain;Cordon;Taint;Hook
type MaintenanceAction string

// What is done to a node.
const (
	ActionDrain  MaintenanceAction = "Drain"  // it is cordoned, and its pods leave
	ActionCordon MaintenanceAction = "Cordon" // it is cordoned until no maintenance wants that any more
	ActionTaint  MaintenanceAction = "Taint"  // it has spec.taint until no maintenance wants that any more
	ActionHook   MaintenanceAction = "Hook"   // spec.whenDrained.hook is called for it, and nothing else is done
)

// MaintenanceTaint is a taint that a maintenance sets.
//
// +kubebuilder:validation:XValidation:rule="!self.key.matches('(^|[.])(kubernetes[.]io|(x-)?k8s[.]io|usher[.]sh|karpenter[.]sh)/') && !(self.key in ['ToBeDeletedByClusterAutoscaler', 'DeletionCandidateOfClusterAutoscaler'])",message="key is another client's: Kubernetes, autoscalers and Usher itself set taints of kubernetes.io, k8s.io, karpenter.sh and usher.sh, ToBeDeletedByClusterAutoscaler and DeletionCandidateOfClusterAutoscaler"
type MaintenanceTaint struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	Key string `json:"key"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
	Value string `json:"value,omitempty"`
	// Effect is NoSchedule, PreferNoSchedule or NoExecute. NoExecute has Kubernetes delete the pods that do not tolerate the taint, past budgets.
	// Default: NoSchedule.
	// +optional
	// +kubebuilder:default=NoSchedule
	Effect TaintEffect `json:"effect,omitempty"`
}

// TaintEffect is the effect of a taint.
//
// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
type TaintEffect string

// The effects of taints.
const (
	TaintNoSchedule       TaintEffect = "NoSchedule"
	TaintPreferNoSchedule TaintEffect = "PreferNoSchedule"
	TaintNoExecute        TaintEffect = "NoExecute"
)

// NodeSelection says which nodes: those of the names, or those with the labels.
//
// +kubebuilder:validation:XValidation:rule="has(self.names) != has(self.selector)",message="set either names or selector"
// +kubebuilder:validation:XValidation:rule="!has(self.selection) || has(self.selector)",message="selection goes with a selector: names are what they are"
type NodeSelection struct {
	// Names of nodes. They are begun in this order, zone by zone.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Names []string `json:"names,omitempty"`
	// Selector selects nodes by labels; an empty one selects all.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Selection says whether the selector is evaluated once (Fixed), or nodes that match later are taken as well and those that do not
	// any more are given back (Dynamic). Default: Fixed.
	// +optional
	Selection SelectionMode `json:"selection,omitempty"`
}

// SelectionMode says when a selector is evaluated.
//
// +kubebuilder:validation:Enum=Fixed;Dynamic
type SelectionMode string

// The selection modes.
const (
	SelectionFixed   SelectionMode = "Fixed"
	SelectionDynamic SelectionMode = "Dynamic"
)

// MaintenanceDrain says which pods leave. Where several maintenances want a node, each field has the value with the least force.
type MaintenanceDrain struct {
	// UnmanagedPods says what becomes of pods that no controller owns, which nothing replaces: they hold the node (Block), or are
	// evicted (Evict).
	// +optional
	// +kubebuilder:default=Block
	UnmanagedPods PodHandling `json:"unmanagedPods,omitempty"`
	// EmptyDirPods says what becomes of pods with emptyDir volumes, whose data is lost: they hold the node (Block), or are evicted (Evict).
	// +optional
	// +kubebuilder:default=Block
	EmptyDirPods PodHandling `json:"emptyDirPods,omitempty"`
	// DaemonSetPods says what becomes of the pods of DaemonSets: they stay (Ignore), or are evicted after all others (Evict).
	// +optional
	// +kubebuilder:default=Ignore
	DaemonSetPods DaemonSetHandling `json:"daemonSetPods,omitempty"`
	// Surge says when replacements are started before pods are evicted: where a budget could never allow it or the only replica would be
	// down (Auto), never (Never), or wherever a Deployment can be scaled (Always).
	// +optional
	// +kubebuilder:default=Auto
	Surge SurgePolicy `json:"surge,omitempty"`
}

// PodHandling says what becomes of pods that are lost, or lose data, by an eviction.
//
// +kubebuilder:validation:Enum=Block;Evict
type PodHandling string

// What becomes of such pods.
const (
	PodsBlock PodHandling = "Block"
	PodsEvict PodHandling = "Evict"
)

// DaemonSetHandling says what becomes of the pods of DaemonSets.
//
// +kubebuilder:validation:Enum=Ignore;Evict
type DaemonSetHandling string

// What becomes of the pods of DaemonSets.
const (
	DaemonSetsIgnore DaemonSetHandling = "Ignore"
	DaemonSetsEvict  DaemonSetHandling = "Evict"
)

// SurgePolicy says when replacements are started first.
//
// +kubebuilder:validation:Enum=Auto;Never;Always
type SurgePolicy string

// When replacements are started first.
const (
	SurgeAuto   SurgePolicy = "Auto"
	SurgeNever  SurgePolicy = "Never"
	SurgeAlways SurgePolicy = "Always"
)

// MaintenanceConcurrency limits how much is out of service at once. Nodes of all maintenances count, from their cordon until they are
// given back, or until they are drained where they are kept cordoned.
type MaintenanceConcurrency struct {
	// Nodes is how many nodes. Default: 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	Nodes int32 `json:"nodes,omitempty"`
	// Zones is how many zones (topology.kubernetes.io/zone) may have such nodes. Default: 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	Zones int32 `json:"zones,omitempty"`
}

// DeadlineAction says what happens to pods that are still held at the deadline.
//
// +kubebuilder:validation:Enum=Stop;DeletePods
type DeadlineAction string

// What happens at the deadline.
const (
	DeadlineStop       DeadlineAction = "Stop"
	DeadlineDeletePods DeadlineAction = "DeletePods"
)

// WhenDrained says what happens to a node that is drained, or to which spec.action was done. Without KeepCordoned and DeleteNode it is given back: what Usher cordoned is
// uncordoned, and nothing else.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!(has(self.keepCordoned) && has(self.deleteNode))",message="set either keepCordoned or deleteNode"
type WhenDrained struct {
	// Hook is called once the node is drained, until it answers with a 2xx status.
	// +optional
	Hook *MaintenanceHook `json:"hook,omitempty"`
	// Wait says for what.
	// +optional
	Wait *MaintenanceWait `json:"wait,omitempty"`
	// KeepCordoned keeps the node cordoned until this object is deleted.
	// +optional
	KeepCordoned *KeepCordoned `json:"keepCordoned,omitempty"`
	// DeleteNode deletes the Node.
	// +optional
	DeleteNode *DeleteNode `json:"deleteNode,omitempty"`
}

// KeepCordoned has no settings.
type KeepCordoned struct{}

// DeleteNode says what becomes of members whose data is on the node.
type DeleteNode struct {
	// Members says what becomes of members of EvictionPolicies with a provider whose volumes can be used on the node alone, so that their pods
	// find no other: they stay as they are, Pending (Keep), or a ReplacementRequest is made for each, in the name of spec.requester, before the
	// Node is deleted (Replace).
	// +optional
	// +kubebuilder:default=Keep
	Members MemberHandling `json:"members,omitempty"`
}

// MemberHandling says what becomes of members whose data is on a Node that is deleted.
//
// +kubebuilder:validation:Enum=Keep;Replace
type MemberHandling string

// What becomes of such members.
const (
	MembersKeep    MemberHandling = "Keep"
	MembersReplace MemberHandling = "Replace"
)

// MaintenanceHook is an HTTP endpoint. It is sent a POST with a JSON object: maintenance, requester, reason, node, nodeUID, providerID.
// A call whose answer was lost is repeated: the receiver goes by nodeUID.
type MaintenanceHook struct {
	// URL is http or https. The addresses of the manager itself and of clouds' metadata are refused.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://`
	URL string `json:"url"`
	// Timeout is how long one call may take, 1s to 30s. Default: 10s.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('30s')",message="must be from 1s to 30s"
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// MaintenanceWait says what is waited for.
//
// +kubebuilder:validation:XValidation:rule="(self.__for__ == 'Condition') == has(self.condition)",message="condition goes with for: Condition, and has to be set then"
type MaintenanceWait struct {
	// For is what has to happen to the node since its drain began: a new boot id, a new kubelet version, each with the node Ready again, or a
	// condition. A condition that the node has already, as Ready is before a reboot, ends the wait at once.
	For WaitFor `json:"for"`
	// Condition is the condition of the node that is waited for.
	// +optional
	Condition *NodeConditionRef `json:"condition,omitempty"`
	// Timeout is how long it is waited for before the node counts as blocked; it is waited for all the same. Default: 1h.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be at least 1s"
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// WaitFor is what is waited for.
//
// +kubebuilder:validation:Enum=BootIDChanged;KubeletVersionChanged;Condition
type WaitFor string

// What is waited for.
const (
	WaitBootIDChanged         WaitFor = "BootIDChanged"
	WaitKubeletVersionChanged WaitFor = "KubeletVersionChanged"
	WaitCondition             WaitFor = "Condition"
)

// NodeConditionRef names a condition of a node and its status.
type NodeConditionRef struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	Type string `json:"type"`
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status metav1.ConditionStatus `json:"status"`
}

// NodeMaintenanceStatus is what Usher saw and did.
type NodeMaintenanceStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Reconciling and Stalled, as kstatus reads them.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	Counts NodeCounts `json:"counts,omitzero"`
	// Nodes are those in work, and those that are blocked. An entry is written before anything is done to its node.
	// +optional
	// +listType=atomic
	Nodes []MaintainedNode `json:"nodes,omitempty"`
	// SelectedNodes are the names that a Fixed selector has selected, once and for all.
	// +optional
	// +listType=atomic
	SelectedNodes []string `json:"selectedNodes,omitempty"`
	// DoneNodes are the names of nodes that this maintenance has done with.
	// +optional
	// +listType=atomic
	DoneNodes []string `json:"doneNodes,omitempty"`
}

// NodeCounts counts the nodes that are selected; each is in one of them.
type NodeCounts struct {
	// Planned: their turn has not come.
	Planned int32 `json:"planned"`
	// Draining: their drains have begun. Each is cordoned once nothing objects and there is room for it, and then its pods leave.
	Draining int32 `json:"draining"`
	// Drained: all that had to leave has left, or what another action sets is set, and what is to follow has not happened yet.
	Drained int32 `json:"drained"`
	// Blocked: something that waiting does not clear keeps them.
	Blocked int32 `json:"blocked"`
	// Done: this maintenance has done with them.
	Done int32 `json:"done"`
}

// MaintenanceStep is where a node is in its maintenance.
//
// +kubebuilder:validation:Enum=Draining;Marking;CallingHook;Waiting;ReplacingMembers;DeletingNode;Drained;Marked
type MaintenanceStep string

// The steps.
const (
	// StepDraining: its drain has begun. It is cordoned once nothing objects and there is room for it, and then its pods leave.
	StepDraining MaintenanceStep = "Draining"
	// StepMarking: it is to be cordoned or tainted, by an action other than Drain.
	StepMarking MaintenanceStep = "Marking"
	// StepCallingHook: it is drained or marked, and the hook has not taken it yet.
	StepCallingHook MaintenanceStep = "CallingHook"
	// StepWaiting: it is drained or marked, and what spec.whenDrained.wait names has not happened yet.
	StepWaiting MaintenanceStep = "Waiting"
	// StepReplacingMembers: it is drained, and ReplacementRequests are to be made for the members whose data is on it.
	StepReplacingMembers MaintenanceStep = "ReplacingMembers"
	// StepDeletingNode: it is drained, and its Node is to go.
	StepDeletingNode MaintenanceStep = "DeletingNode"
	// StepDrained: it is drained and kept cordoned.
	StepDrained MaintenanceStep = "Drained"
	// StepMarked: it is cordoned or tainted, by an action other than Drain, and kept so.
	StepMarked MaintenanceStep = "Marked"
)

// MaintainedNode is a node in work.
type MaintainedNode struct {
	Name string          `json:"name"`
	UID  types.UID       `json:"uid"`
	Step MaintenanceStep `json:"step"`
	// StartTime is when the node was begun, StepTime when its step was.
	StartTime metav1.Time `json:"startTime"`
	StepTime  metav1.Time `json:"stepTime"`
	// BootID and KubeletVersion are what they were when the node was begun.
	// +optional
	BootID string `json:"bootID,omitempty"`
	// +optional
	KubeletVersion string `json:"kubeletVersion,omitempty"`
	// PodCount is how many pods have to leave yet.
	// +optional
	PodCount int32 `json:"podCount,omitempty"`
	// Blocked: something that waiting does not clear keeps it.
	// +optional
	Blocked bool `json:"blocked,omitempty"`
	// Blockers are what keeps it: at most 5, those that waiting does not clear first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Blockers []MaintenanceBlocker `json:"blockers,omitempty"`
	// Warnings are what its drain costs, and what it will not have done by the deadline, as things stand. They keep nothing.
	// +optional
	// +listType=map
	// +listMapKey=reason
	// +kubebuilder:validation:MaxItems=8
	Warnings []MaintenanceWarning `json:"warnings,omitempty"`
}

// MaintenanceWarning is one thing to know of pods on a node.
type MaintenanceWarning struct {
	// Reason is CamelCase, for machines: UnreplicatedPod, OrphanedDaemonSetPod and LocalStorage are lost with their pods, and are named also once these
	// are gone; WillBeLost (NotInTime, where the node stays) will not have left by the deadline; GraceCut gets less time to end than it asks for;
	// FitsNowhere: no other node takes what is made in its place.
	Reason string `json:"reason"`
	// Count is of how many pods it is so.
	Count int32 `json:"count"`
	// Pods are the first of them: at most 10.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Pods []WarnedPod `json:"pods,omitempty"`
}

// WarnedPod is a pod that a warning is about.
type WarnedPod struct {
	// Name is NAMESPACE/NAME.
	Name string `json:"name"`
	// Message says what is so, and what is waited for.
	// +optional
	Message string `json:"message,omitempty"`
	// Remedy says what a person can do about it.
	// +optional
	Remedy string `json:"remedy,omitempty"`
}

// MaintenanceBlocker is one thing that keeps a pod on its node, or a node in its step.
type MaintenanceBlocker struct {
	// Reason is CamelCase, for machines.
	Reason string `json:"reason"`
	// Pod is NAMESPACE/NAME, empty where it is the node's.
	// +optional
	Pod string `json:"pod,omitempty"`
	// Message says what is wrong and what it waits for.
	Message string `json:"message"`
	// Remedy says what a person can do about it.
	// +optional
	Remedy string `json:"remedy,omitempty"`
}
