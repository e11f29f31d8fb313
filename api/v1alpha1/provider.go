package v1alpha1

// Provider says how the successor of a member comes about. Exactly one field is set.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type Provider struct {
	// StatefulSet: the pod's StatefulSet makes it anew under the same name, once the pod and its claims are removed.
	// +optional
	StatefulSet *StatefulSetProvider `json:"statefulSet,omitempty"`
	// Patch: an operator replaces the member once an object of the policy's namespace is patched.
	// +optional
	Patch *PatchProvider `json:"patch,omitempty"`
	// DeletePod: the pod is deleted, and its controller makes another. For roles with the successor AnyPod.
	// +optional
	DeletePod *DeletePodProvider `json:"deletePod,omitempty"`
	// MemberSet: the MemberSet that the policy belongs to makes another member first, and then removes this one. Usher sets it in the policies that it makes for
	// MemberSets.
	// +optional
	MemberSet *MemberSetProvider `json:"memberSet,omitempty"`
}

// MemberSetProvider repeats what the MemberSet says.
type MemberSetProvider struct {
	// VolumeClaims says what becomes of the PersistentVolumes of the claims that are deleted.
	// +optional
	// +kubebuilder:default=Retain
	VolumeClaims VolumeClaimMode `json:"volumeClaims,omitempty"`
	// Maintenance says whether pods that are evicted are made anew with their claims while their zone is under maintenance.
	// +optional
	Maintenance MaintenanceMode `json:"maintenance,omitempty"`
}

// StatefulSetProvider says what becomes of a member's volumes.
type StatefulSetProvider struct {
	// VolumeClaims says what becomes of the PersistentVolumes of the claims that are deleted: each is set to Retain before, and stays with
	// its data (Retain), or it goes as its reclaim policy says (Delete).
	// +optional
	// +kubebuilder:default=Retain
	VolumeClaims VolumeClaimMode `json:"volumeClaims,omitempty"`
}

// VolumeClaimMode says what becomes of the volumes of a member that is replaced.
//
// +kubebuilder:validation:Enum=Retain;Delete
type VolumeClaimMode string

// The modes.
const (
	VolumeClaimsRetain VolumeClaimMode = "Retain"
	VolumeClaimsDelete VolumeClaimMode = "Delete"
)

// DeletePodProvider has nothing to say yet.
type DeletePodProvider struct{}

// PatchProvider says how an operator is asked to replace a member. The object is read and patched as spec.serviceAccountName, which needs the
// verbs get and patch on it.
type PatchProvider struct {
	// Target is the object that is patched, in the policy's namespace.
	Target PatchTarget `json:"target"`
	// Do asks for the replacement. It is sent again where its effect is missing while the member is still there.
	Do ObjectPatch `json:"do"`
	// Undo takes that back where the request is deleted before the member is gone. Without it, deleting the request does not cancel once Do was
	// sent.
	// +optional
	Undo *ObjectPatch `json:"undo,omitempty"`
}

// PatchTarget names an object.
type PatchTarget struct {
	// APIVersion is its group and version: v1, or apps.foundationdb.org/v1beta2.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`
	// Kind is that of a namespaced resource.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Name is its name; {{expression}} (CEL over member.id, member.role and pod) is replaced by its value. Of a member whose pod is gone, pod is not
	// known.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name"`
}

// ObjectPatch is a change of an object. Each part of it leaves the object as it is where it has that effect already.
//
// +kubebuilder:validation:MinProperties=1
type ObjectPatch struct {
	// Merge is a JSON merge patch (RFC 7386), a JSON object; {{expression}} is replaced by its value as JSON, as in target.name:
	// {"metadata": {"annotations": {"strimzi.io/delete-pod-and-pvc": "true"}}}.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=16384
	Merge string `json:"merge,omitempty"`
	// Append adds elements to lists that do not have them. A list that is absent is made.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +listType=atomic
	Append []ListElement `json:"append,omitempty"`
	// Remove takes elements out of lists.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +listType=atomic
	Remove []ListElement `json:"remove,omitempty"`
}

// ListElement is an element of a list in an object.
type ListElement struct {
	// Path leads to the list through objects, as a JSON pointer (RFC 6901): /spec/processGroupsToRemove.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^(/[^/]+)+$`
	Path string `json:"path"`
	// Value is JSON; {{expression}} is replaced by its value as JSON.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
}
