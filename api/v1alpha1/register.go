package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "usher.sh", Version: "v1alpha1"}

// AddToScheme makes the types known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&EvictionPolicy{}, &EvictionPolicyList{},
		&ClusterEvictionPolicy{}, &ClusterEvictionPolicyList{},
		&LostNodePolicy{}, &LostNodePolicyList{},
		&NodeFence{}, &NodeFenceList{},
		&NodeMaintenance{}, &NodeMaintenanceList{},
		&ReplacementRequest{}, &ReplacementRequestList{},
		&MemberSet{}, &MemberSetList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
