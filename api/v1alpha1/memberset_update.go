package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MemberUpdateStrategy says how what is changed in a group reaches its members. What only a replacement changes is replaced whatever the type says: the
// prefix of ids, the source of addresses, the number of members per pod, the node selector, and any part of the claims.
type MemberUpdateStrategy struct {
	// Type is how everything else reaches members. Default: Replace for the roles of FoundationDB's transaction system, else Recreate.
	// +optional
	Type MemberUpdateType `json:"type,omitempty"`
	// +optional
	// +kubebuilder:default={}
	Recreate RecreationTerms `json:"recreate,omitzero"`
	// +optional
	Replace ReplacementTerms `json:"replace,omitzero"`
}

// GroupUpdateStrategy is what a group says otherwise than its set.
type GroupUpdateStrategy struct {
	// +optional
	Type MemberUpdateType `json:"type,omitempty"`
}

// MemberUpdateType is how a changed pod template reaches members.
//
// +kubebuilder:validation:Enum=Recreate;Replace;OnDelete
type MemberUpdateType string

// The types.
const (
	UpdateRecreate MemberUpdateType = "Recreate" // the pod is evicted and made anew under its name, with the claims that it has
	UpdateReplace  MemberUpdateType = "Replace"  // another member takes its place
	UpdateOnDelete MemberUpdateType = "OnDelete" // the pods stay, and are made anew when they are gone for another cause
)

// MemberBatch is which members go at the same time.
//
// +kubebuilder:validation:Enum=All;Zone;Member;None
type MemberBatch string

// The batches.
const (
	BatchAll    MemberBatch = "All"
	BatchZone   MemberBatch = "Zone"
	BatchMember MemberBatch = "Member"
	BatchNone   MemberBatch = "None"
)

// RecreationTerms say how pods are made anew. Each is evicted by the rules of its role, which may let fewer go than the batch does.
type RecreationTerms struct {
	// Batch says which pods go at the same time. Those of the next zone, or the next pod, go once these are Ready and do their work again.
	// +optional
	// +kubebuilder:default=Zone
	Batch MemberBatch `json:"batch,omitempty"`
	// MaxUnavailableZones is in how many zones members may be unavailable, whatever the cause; with the batch Member, how many members may. A pod in a zone that
	// has such members already may go. Default: 1, and no limit for the batch All.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxUnavailableZones *int32 `json:"maxUnavailableZones,omitempty"`
	// Maintenance says whether the system has the zone of pods that are made anew under maintenance meanwhile, and with that waits for what is on their volumes
	// instead of making it anew elsewhere. It is of the storage servers of FoundationDB. Default: None, by which what they have is moved to others before they go.
	// +optional
	Maintenance MaintenanceMode `json:"maintenance,omitempty"`
	// MaintenanceTimeout is how long after its begin such a maintenance ends by itself, whatever has come back: 2m to 24h. Default: 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('2m') && duration(self) <= duration('24h')",message="from 2m to 24h"
	MaintenanceTimeout *metav1.Duration `json:"maintenanceTimeout,omitempty"`
}

// MaintenanceMode says who has zones under maintenance.
//
// +kubebuilder:validation:Enum=Managed;None
type MaintenanceMode string

// The modes.
const (
	MaintenanceManaged MaintenanceMode = "Managed" // Usher begins and ends it, for the pods that are made anew alone
	MaintenanceNone    MaintenanceMode = "None"
)

// ReplacementTerms say how members are replaced that are not as their group says.
type ReplacementTerms struct {
	// MaxInFlight is how many members may be marked and still be there, whoever marked them: so many more pods there are at once. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxInFlight *int32 `json:"maxInFlight,omitempty"`
	// AlsoOn are changes of the pod template for which a member is replaced where it would be recreated otherwise.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	AlsoOn []TemplateChange `json:"alsoOn,omitempty"`
}

// TemplateChange is a change of a pod template.
//
// +kubebuilder:validation:Enum=ResourceIncrease;FileOwnership
type TemplateChange string

// The changes.
const (
	// ResourceIncrease: its containers, or its init containers, request more CPU or memory in sum.
	ResourceIncrease TemplateChange = "ResourceIncrease"
	// FileOwnership: fsGroup, fsGroupChangePolicy, or the user or group that a container runs as.
	FileOwnership TemplateChange = "FileOwnership"
)

// PerNode selects the nodes of a group that has a member on each.
type PerNode struct {
	// NodeSelector are labels that the nodes have.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]string `json:"nodeSelector"`
}

// AddressSource is whose address other members reach a member at.
//
// +kubebuilder:validation:Enum=Pod;Service
type AddressSource string

// The sources.
const (
	AddressFromPod     AddressSource = "Pod"
	AddressFromService AddressSource = "Service"
)

// OnEviction says what comes of the eviction of a member's pod.
//
// +kubebuilder:validation:Enum=Auto;Recreate;Replace
type OnEviction string

// What comes of an eviction.
const (
	OnEvictionAuto     OnEviction = "Auto"
	OnEvictionRecreate OnEviction = "Recreate" // the pod goes, and is made anew under its name
	OnEvictionReplace  OnEviction = "Replace"  // another member takes its place, and the pod goes with it then
)

// What OnEvictionAnnotation says.
const (
	PodRecreates               = "Recreate"
	PodFollows                 = "RecreateElsewhere" // its volumes, if it has any, can be used on several nodes
	PodIsReplaced              = "Replace"
	PodIsReplacedWhereCordoned = "ReplaceWhereCordoned" // its volumes can be used on its node alone
)

// MemberRemovalTerms say how members are removed.
type MemberRemovalTerms struct {
	// VolumeClaims says what becomes of the PersistentVolumes of a member that is removed: each is set to Retain before its claim goes, and stays with its
	// data (Retain), or it goes as its reclaim policy says (Delete).
	// +optional
	// +kubebuilder:default=Retain
	VolumeClaims VolumeClaimMode `json:"volumeClaims,omitempty"`
	// Batch says which members may be removed at the same time: all that may go, those of a zone, or one. None: none is. Of a system with a list of its
	// members it is one in any case.
	// +optional
	// +kubebuilder:default=Zone
	Batch MemberBatch `json:"batch,omitempty"`
	// MinInterval is how long after the removal of a member began the next one begins, unless both are of one batch. 0s: at once.
	// +optional
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="from 0s to 24h"
	MinInterval *metav1.Duration `json:"minInterval,omitempty"`
}
