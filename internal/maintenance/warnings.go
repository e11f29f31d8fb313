package maintenance

import (
	"fmt"
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// Warnings say of a maintenance that is to be created what is allowed and may not be meant.
func Warnings(m *v1alpha1.NodeMaintenance, nodes []*Node, others []v1alpha1.NodeMaintenance, now time.Time) []string {
	names, err := Selected(&m.Spec.Nodes, nodes)
	if err != nil {
		return []string{err.Error()}
	}
	var warnings, missing []string
	for _, name := range names {
		if !slices.ContainsFunc(nodes, func(n *Node) bool { return n.Name == name }) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		warnings = append(warnings, fmt.Sprintf("there is no node %s; it is begun once there is", text.List(missing, 10)))
	}
	switch {
	case len(names) == 0:
		warnings = append(warnings, "spec.nodes.selector matches no node; nothing happens until one does")
	case m.Spec.Nodes.Selector != nil && len(names) == len(nodes):
		warnings = append(warnings, fmt.Sprintf("spec.nodes.selector matches all nodes of the cluster (%d)", len(names)))
	}
	if m.Spec.DeadlineTime != nil && !m.Spec.DeadlineTime.After(now) {
		warnings = append(warnings, "spec.deadlineTime has passed: nothing will be evicted")
	}
	return append(warnings, overlaps(m, names, nodes, others)...)
}

// overlaps names the maintenances that want some of the nodes as well.
func overlaps(m *v1alpha1.NodeMaintenance, names []string, nodes []*Node, others []v1alpha1.NodeMaintenance) []string {
	var warnings []string
	for i := range others {
		other := &others[i]
		if !Drains(m) || !Drains(other) {
			continue // beside a drain, what others set stays until they are deleted
		}
		theirs, err := Selected(&other.Spec.Nodes, nodes)
		if err != nil || other.Name == m.Name || other.DeletionTimestamp != nil {
			continue
		}
		shared := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return !slices.Contains(theirs, name) || slices.Contains(other.Status.DoneNodes, name)
		})
		if len(shared) > 0 {
			warnings = append(warnings, fmt.Sprintf("NodeMaintenance %s (%s) wants %s as well: the tightest deadline and the least force of both count, and each node is given back once both have done with it",
				other.Name, other.Spec.Requester, text.List(shared, 5)))
		}
	}
	return warnings
}
