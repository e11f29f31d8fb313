package observe

import (
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/notice"
)

// NoticeFacts returns what decisions about notices know of a node. They share slices with the object.
func NoticeFacts(node *corev1.Node) notice.Node {
	return notice.Node{
		Name: node.Name, UID: node.UID, Hostname: node.Labels[corev1.LabelHostname], ProviderID: node.Spec.ProviderID,
		Taints: node.Spec.Taints, Conditions: node.Status.Conditions,
	}
}
