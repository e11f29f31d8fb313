package observe

import (
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/lostnode"
)

// LostNodeFacts returns what decisions about lost nodes know of a node. They share maps and slices with the object.
func LostNodeFacts(node *corev1.Node) lostnode.Node {
	facts := lostnode.Node{
		Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, BootID: node.Status.NodeInfo.BootID,
		Zone: zone(node.Labels), Labels: node.Labels, Taints: node.Spec.Taints,
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			facts.Ready, facts.Since = c.Status, c.LastTransitionTime.Time
		}
	}
	return facts
}
