package wiring

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// GovernedNode is the field by which governed pods are found by their node.
const GovernedNode = "governed:node"

// GovernedNodeIndexes are the indexes for GovernedNode.
func GovernedNodeIndexes() []Index {
	return []Index{{Object: &corev1.Pod{}, Field: GovernedNode, Values: NodeOfGoverned}}
}

// NodeOfGoverned is the node of a pod that has the label of a policy.
func NodeOfGoverned(o client.Object) []string {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Labels[v1alpha1.PolicyLabel] == "" || pod.Spec.NodeName == "" {
		return nil
	}
	return []string{pod.Spec.NodeName}
}
