package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// MemberSet has Usher run the members of a system itself: it makes their pods, takes them into the system, replaces them by growing and then shrinking, and
// keeps an EvictionPolicy of its name over them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ms,categories=usher
// +kubebuilder:printcolumn:name="System",type=string,JSONPath=`.status.system`
// +kubebuilder:printcolumn:name="Members",type=integer,JSONPath=`.status.memberCount`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 24",message="a name may have 24 characters at most: those of pods begin with it"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="a name begins with a letter, and has letters, digits and dashes alone: those of Services begin with it"
type MemberSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MemberSetSpec   `json:"spec"`
	Status MemberSetStatus `json:"status,omitempty"`
}

// MemberSetList is a list of sets.
//
// +kubebuilder:object:root=true
type MemberSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MemberSet `json:"items"`
}

// MemberSetSpec says which members there are to be.
//
// +kubebuilder:validation:XValidation:rule="has(self.system.etcd) || has(self.system.kubernetes) || has(self.system.foundationdb)",message="members of the systems etcd, foundationdb and kubernetes can be run"
// +kubebuilder:validation:XValidation:rule="!has(self.system.etcd) || size(self.groups) == 1",message="an etcd cluster is one group"
// +kubebuilder:validation:XValidation:rule="!has(self.system.foundationdb) || has(self.system.foundationdb.clusterFile.configMap)",message="the cluster file of a FoundationDB whose members Usher runs stands in a ConfigMap: set system.foundationdb.clusterFile.configMap"
// +kubebuilder:validation:XValidation:rule="!has(self.system.foundationdb) || has(self.system.foundationdb.redundancy) && self.system.foundationdb.redundancy != 'three_data_hall'",message="set system.foundationdb.redundancy to single, double or triple: the database is configured so when it is made"
// +kubebuilder:validation:XValidation:rule="!has(self.system.foundationdb) || has(self.faultDomainKey) && self.faultDomainKey == 'kubernetes.io/hostname'",message="set faultDomainKey to kubernetes.io/hostname: a FoundationDB process gets its zone from what a pod knows of its node, which is the node's name and no label of it"
// +kubebuilder:validation:XValidation:rule="!has(self.system.foundationdb) || !has(oldSelf.system.foundationdb) || self.system.foundationdb.clusterFile == oldSelf.system.foundationdb.clusterFile",message="the ConfigMap of the cluster file is not another one later: pods mount it by its name"
// +kubebuilder:validation:XValidation:rule="!has(self.system.foundationdb) || duration(self.evidence.timeout) >= duration('15s') && duration(self.evidence.maxAge) >= duration('20s')",message="system foundationdb needs evidence.timeout of at least 15s and evidence.maxAge of at least 20s: its status takes seconds while a process is freshly dead"
// +kubebuilder:validation:XValidation:rule="has(self.system.etcd) == has(oldSelf.system.etcd) && has(self.system.foundationdb) == has(oldSelf.system.foundationdb)",message="members do not change from one kind of system to another: write another MemberSet"
// +kubebuilder:validation:XValidation:rule="has(self.system.foundationdb) || !has(self.updateStrategy) || !has(self.updateStrategy.recreate) || !has(self.updateStrategy.recreate.maintenance) || self.updateStrategy.recreate.maintenance == 'None'",message="FoundationDB alone has zones under maintenance: set updateStrategy.recreate.maintenance to None"
// +kubebuilder:validation:XValidation:rule="oldSelf.groups.all(o, self.groups.exists(g, g.name == o.name && g.role == o.role))",message="a group is not taken out, and keeps its role: set its replicas to 0"
type MemberSetSpec struct {
	// System is what the members belong to, and how it is reached.
	System System `json:"system"`

	// Evidence says how old what the system says may be, and how long it may take to say it.
	// +optional
	// +kubebuilder:default={}
	Evidence EvidenceLimits `json:"evidence,omitzero"`

	// Roles are roles of this set's own. One with the name of a built-in role takes its place here.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Roles []Role `json:"roles,omitempty"`

	// Groups are members that are alike.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Groups []MemberGroup `json:"groups"`

	// FaultDomainKey is the label of nodes whose value is a member's zone. Where a node lacks it, its name is the zone.
	// +optional
	// +kubebuilder:default="topology.kubernetes.io/zone"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	FaultDomainKey string `json:"faultDomainKey,omitempty"`

	// IDPrefix begins the ids of members, and with that the names of their pods. Members with another are replaced.
	// +optional
	// +kubebuilder:validation:MaxLength=12
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	IDPrefix string `json:"idPrefix,omitempty"`

	// UpdateStrategy says how what is changed in a group reaches its members.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy MemberUpdateStrategy `json:"updateStrategy,omitzero"`

	// Removal says how members are removed.
	// +optional
	// +kubebuilder:default={}
	Removal MemberRemovalTerms `json:"removal,omitzero"`

	// OnEviction says what comes of the eviction of a member's pod. Auto: the pod goes, and is made anew under its name; but where its volumes can be used on its
	// node alone, and that is cordoned, another member takes its place first.
	// +optional
	// +kubebuilder:default=Auto
	OnEviction OnEviction `json:"onEviction,omitempty"`

	// Repair says when a member that is unhealthy gets a successor. Without it nothing is looked at.
	// +optional
	Repair *Repair `json:"repair,omitempty"`

	// Suspend stops everything that Usher does for this set: no object is made or removed, and its policy is suspended. Its pods stay governed.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// MemberGroup is a number of members that are alike.
//
// +kubebuilder:validation:XValidation:rule="has(self.replicas) != has(self.perNode)",message="set either replicas or perNode"
// +kubebuilder:validation:XValidation:rule="has(self.replicas) == has(oldSelf.replicas)",message="a group with replicas stays one, and so does one with perNode: add another group"
type MemberGroup struct {
	// Name is a part of the names of the group's pods.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Role is the name of a built-in role (usher roles lists them) or of one in spec.roles.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Role string `json:"role"`
	// Replicas is how many members do their work. While members are replaced there are more.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=250
	Replicas *int32 `json:"replicas,omitempty"`
	// PerNode has one member on each node that matches. One whose node does not match any more is removed, once its data is elsewhere.
	// +optional
	PerNode *PerNode `json:"perNode,omitempty"`
	// MembersPerPod is how many processes of the system each pod has. With another number members are replaced. Default: 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	MembersPerPod int32 `json:"membersPerPod,omitempty"`
	// AddressFrom says whose address other members reach a member at: its pod's, or that of a Service of its own. With another one members are
	// replaced. Default: Service for etcd, else Pod.
	// +optional
	AddressFrom AddressSource `json:"addressFrom,omitempty"`
	// Parameters are lines `name = value` that the configuration of each process gets beside Usher's own, such as knobs of FoundationDB. Where nothing but
	// these changes, pods are made anew and no member is replaced, unless the strategy is OnDelete. Only of FoundationDB.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^[a-z][a-z0-9_-]+ = [^\s].*$`
	// +listType=atomic
	Parameters []string `json:"parameters,omitempty"`
	// UpdateStrategy is how what is changed in this group reaches its members. Default: that of the set.
	// +optional
	UpdateStrategy GroupUpdateStrategy `json:"updateStrategy,omitzero"`
	// Template is a pod template, with metadata and spec, as Deployments have it. The apiserver checks it when a pod is made.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Template runtime.RawExtension `json:"template"`
	// VolumeClaimTemplates are claims, with metadata and spec, as StatefulSets have them: each member has one of each, which the pod can mount by the
	// template's name.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	VolumeClaimTemplates []VolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`
}

// VolumeClaimTemplate is what a member's claim is made of.
type VolumeClaimTemplate struct {
	// Name is that of the volume in the pod template; the claim's is NAME-POD.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Labels are those of the claim, beside Usher's.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]string `json:"labels,omitempty"`
	// Spec is that of a PersistentVolumeClaim. The apiserver checks it when a claim is made.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Spec runtime.RawExtension `json:"spec"`
}

// MemberSetStatus is what Usher has made, and what it waits for. Usher alone writes it.
type MemberSetStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Reconciling and Stalled, as kstatus reads them: Ready once there are as many members as there are to be, no more, and all their
	// pods are Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// System is the kind of system.
	// +optional
	System string `json:"system,omitempty"`
	// MemberCount is how many members there are, those included that join and those that leave.
	// +optional
	MemberCount int32 `json:"memberCount"`
	// Formed is written once the first members have formed their system: from then on a member joins what is there, and nothing is begun anew.
	// +optional
	Formed *MemberSetFormed `json:"formed,omitempty"`
	// ClusterFile is what leads members and clients to the system, of FoundationDB its cluster file. It is written down before it stands in the ConfigMap that
	// spec.system names, and follows the coordinators.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	ClusterFile string `json:"clusterFile,omitempty"`
	// FormRequestTime is when the first members were about to be asked to form a system by ClusterFile. It is written down before they are: from then on there
	// may be one, and ClusterFile is not chosen anew, whatever becomes of the members that it names.
	// +optional
	FormRequestTime *metav1.Time `json:"formRequestTime,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=name
	Groups []MemberGroupStatus `json:"groups,omitempty"`
	// LastRemovalTime is when the last removal of a member began.
	// +optional
	LastRemovalTime *metav1.Time `json:"lastRemovalTime,omitempty"`
	// Maintenance is the zone that the set has its system keep under maintenance; nil: none.
	// +optional
	Maintenance *ZoneMaintenance `json:"maintenance,omitempty"`
	// Members are all that there are. One is written down before anything of it is made, and stays until nothing of it is left.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=500
	Members []SetMember `json:"members,omitempty"`
	// Blockers are all that it waits for.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Blockers []ReplacementBlocker `json:"blockers,omitempty"`
}

// ZoneMaintenance is a zone under maintenance. It is written down before the system is asked for it, and is there until the system has ended it.
type ZoneMaintenance struct {
	// Zone is the zone in the system's own words.
	// +kubebuilder:validation:MaxLength=253
	Zone string `json:"zone"`
	// StartTime is when it was written down.
	StartTime metav1.Time `json:"startTime"`
	// Members are those that it waits for.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=500
	Members []MaintainedMember `json:"members,omitempty"`
}

// MaintainedMember is a member whose pod is made anew under maintenance. It is on the list until another pod of it does its work.
type MaintainedMember struct {
	// +kubebuilder:validation:MaxLength=63
	ID string `json:"id"`
	// PodUID is the UID of the pod that goes.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	PodUID types.UID `json:"podUID"`
}

// MemberSetFormed is the system that the first members have formed.
type MemberSetFormed struct {
	// Time is when it was seen.
	Time metav1.Time `json:"time"`
	// Cluster is the id of the system's list of members, where it has one: of etcd, the cluster's in hexadecimal; of
	// FoundationDB, the description in its cluster file. What another system says is not believed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Cluster string `json:"cluster,omitempty"`
}

// MemberGroupStatus counts the members of a group.
type MemberGroupStatus struct {
	Name string `json:"name"`
	// Replicas is how many there are to be.
	Replicas int32 `json:"replicas"`
	// MemberCount is how many there are, JoiningCount how many of them do not do their work yet, and MarkedCount how many are to be replaced or removed.
	MemberCount  int32 `json:"memberCount"`
	JoiningCount int32 `json:"joiningCount"`
	MarkedCount  int32 `json:"markedCount"`
	// ReadyCount is how many have a Ready pod.
	ReadyCount int32 `json:"readyCount"`
	// UpdatedCount is how many are as the group says today: their pods, and what only a replacement changes.
	UpdatedCount int32 `json:"updatedCount"`
	// LastNumber is the highest number that a member of the group has had. None is given twice.
	LastNumber int64 `json:"lastNumber"`
}

// SetMember is a member of a set.
type SetMember struct {
	// ID is what its system knows it by, and the name of its pod: SET-GROUP-NUMBER.
	// +kubebuilder:validation:MaxLength=63
	ID string `json:"id"`
	// Group is the name of its group.
	// +kubebuilder:validation:MaxLength=16
	Group string `json:"group"`
	// State is Joining until it does its work for the first time, and Member from then on: of etcd, once it has a vote; of FoundationDB, once its processes
	// are in the cluster's status.
	State SetMemberState `json:"state"`
	// First: it is one of those that form the system.
	// +optional
	First bool `json:"first,omitempty"`
	// StartTime is when it was written down.
	StartTime metav1.Time `json:"startTime"`
	// Node is the one on which its pod is, or was last, and Zone that node's.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=316
	Zone string `json:"zone,omitempty"`
	// AvoidNodes is the node of the member whose successor it is, until that is gone. Its pod is not put there before it has joined.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	AvoidNodes []string `json:"avoidNodes,omitempty"`
	// ForNode is the node that it is for, of a group with a member for each node.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ForNode string `json:"forNode,omitempty"`
	// Shape is what it has been since it was written down: only a replacement changes it.
	Shape MemberShape `json:"shape,omitzero"`
	// CrashLoop are the containers of which its pod says that they are to crash.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	CrashLoop []string `json:"crashLoop,omitempty"`
	// EmptyConfiguration: its pod says that its configuration is to start no process.
	// +optional
	EmptyConfiguration bool `json:"emptyConfiguration,omitempty"`
	// Removal is how far its removal is; nil: no ReplacementRequest stands for it.
	// +optional
	Removal *MemberRemoval `json:"removal,omitempty"`
}

// MemberShape is what only a replacement changes of a member, beside its id and what its claims are like.
type MemberShape struct {
	// +optional
	AddressFrom AddressSource `json:"addressFrom,omitempty"`
	// +optional
	MembersPerPod int32 `json:"membersPerPod,omitempty"`
	// NodeSelector is that of its pod.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Claims are the names of its claims, as its group has them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	Claims []string `json:"claims,omitempty"`
}

// SetMemberState says whether a member has done its work.
//
// +kubebuilder:validation:Enum=Joining;Member
type SetMemberState string

// The states.
const (
	MemberJoining SetMemberState = "Joining"
	MemberWhole   SetMemberState = "Member"
)

// MemberRemoval is how far the removal of a member is that a ReplacementRequest stands for.
type MemberRemoval struct {
	// Request is the name of the request, RequestUID its UID.
	// +kubebuilder:validation:MaxLength=253
	Request string `json:"request"`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	RequestUID types.UID `json:"requestUID"`
	// Step is how far it is. It is written before anything is done that rests on it.
	Step MemberRemovalStep `json:"step"`
	// StartTime is when the step began.
	StartTime metav1.Time `json:"startTime"`
}

// MemberRemovalStep is how far the removal of a member is.
//
// +kubebuilder:validation:Enum=Growing;Emptying;Replaced;Removing;Removed;Refilling
type MemberRemovalStep string

// The steps.
const (
	RemovalGrowing   MemberRemovalStep = "Growing"   // its group has too few members without it
	RemovalEmptying  MemberRemovalStep = "Emptying"  // its group has enough, and what it has is moved to others, where members of its system are emptied first
	RemovalReplaced  MemberRemovalStep = "Replaced"  // its group has enough, it is empty, and it may go once its request says Removing
	RemovalRemoving  MemberRemovalStep = "Removing"  // it leaves its system, then its pod and its claims go; there is no way back
	RemovalRemoved   MemberRemovalStep = "Removed"   // nothing is left of it, and its system takes back that it keeps nothing there
	RemovalRefilling MemberRemovalStep = "Refilling" // its request was taken back, and its system has it take part again
)
