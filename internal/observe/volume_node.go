package observe

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// OnNodeAlone reports whether a volume can be used on a node and, by what it is, on no other: each term of its node affinity names the node, by its
// name or its hostname, whatever the label that this is in. A volume of a zone is not on the one node that the zone has left.
func OnNodeAlone(volume *corev1.PersistentVolume, node *corev1.Node, all []corev1.Node) bool {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return false
	}
	selector, err := nodeaffinity.NewNodeSelector(affinity.Required)
	if err != nil || !selector.Match(node) {
		return false
	}
	for i := range affinity.Required.NodeSelectorTerms {
		if !namesNode(&affinity.Required.NodeSelectorTerms[i], node) {
			return false
		}
	}
	return !slices.ContainsFunc(all, func(other corev1.Node) bool { return other.Name != node.Name && selector.Match(&other) })
}

func namesNode(term *corev1.NodeSelectorTerm, node *corev1.Node) bool {
	names := func(e corev1.NodeSelectorRequirement) bool {
		return e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 && (e.Values[0] == node.Name || e.Values[0] == node.Labels[corev1.LabelHostname])
	}
	return slices.ContainsFunc(term.MatchExpressions, names) || slices.ContainsFunc(term.MatchFields, names)
}
