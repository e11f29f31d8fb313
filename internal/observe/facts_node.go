package observe

import (
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/snapshot"
)

// NodeFacts returns what decisions know of a node. The facts share maps and slices
// with the object, which must not be changed afterwards.
func NodeFacts(node *corev1.Node) *snapshot.Node {
	facts := &snapshot.Node{
		Name:            node.Name,
		UID:             node.UID,
		ResourceVersion: node.ResourceVersion,
		Zone:            zone(node.Labels),
		Labels:          node.Labels,
		Taints:          node.Spec.Taints,
		Unschedulable:   node.Spec.Unschedulable,
		Allocatable: snapshot.Resources{
			MilliCPU: node.Status.Allocatable.Cpu().MilliValue(),
			Memory:   node.Status.Allocatable.Memory().Value(),
			Pods:     node.Status.Allocatable.Pods().Value(),
		},
	}
	facts.Ready, facts.ReadyWhy = nodeReady(node)
	record, err := snapshot.ParseDrainRecord(node.Annotations[snapshot.DrainAnnotation])
	facts.Drain = record
	if err != nil {
		facts.DrainError = err.Error()
	}
	return facts
}

// zone prefers the label of today; clouds that began before Kubernetes 1.17 may
// still set only the one of then.
func zone(set map[string]string) string {
	if name, ok := set[corev1.LabelTopologyZone]; ok {
		return name
	}
	return set[corev1.LabelFailureDomainBetaZone]
}

func nodeReady(node *corev1.Node) (ready bool, why string) {
	for i := range node.Status.Conditions {
		condition := &node.Status.Conditions[i]
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			return true, ""
		}
		return false, words(condition.Reason, condition.Message)
	}
	return false, "the node has not reported yet"
}
