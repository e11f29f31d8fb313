package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterEvictionPolicy says how long what namespaces declare in their policies may hold a maintenance. It is for administrators.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cevp,categories=usher
// +kubebuilder:printcolumn:name="Max Hold",type=string,JSONPath=`.spec.maxHold`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterEvictionPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterEvictionPolicySpec `json:"spec"`
}

// ClusterEvictionPolicyList is a list of cluster policies.
//
// +kubebuilder:object:root=true
type ClusterEvictionPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterEvictionPolicy `json:"items"`
}

// ClusterEvictionPolicySpec is what administrators declare for namespaces.
type ClusterEvictionPolicySpec struct {
	// NamespaceSelector selects namespaces by their labels; an empty one selects all. kube-system and Usher's own are never meant.
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
	// MaxHold is how long blockers of a namespace's policies hold a pod that a maintenance wants gone, 1m to 168h, since its
	// EvictionRequest was made. After that the pod is evicted in spite of them, under its PodDisruptionBudgets. These may hold a pod that a
	// NodeMaintenance wants gone for as long: after that it is deleted past them. Where several policies select a namespace the shortest
	// counts.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="must be from 1m to 168h"
	MaxHold metav1.Duration `json:"maxHold"`
	// Suspend has this policy end no hold.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}
