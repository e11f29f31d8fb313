package cli

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/snapshot"
)

// planOfMaintenance is the drain of all nodes that a maintenance selects now, as many at a time as it allows.
func planOfMaintenance(m *v1alpha1.NodeMaintenance, view snapshot.View) (drain.Request, error) {
	if !maintenance.Drains(m) {
		return drain.Request{}, fmt.Errorf("spec.action is %s: no pod leaves a node for it", m.Spec.Action)
	}
	var nodes []*maintenance.Node
	for _, n := range view.Cluster.Nodes() {
		nodes = append(nodes, &maintenance.Node{Node: n})
	}
	names, err := maintenance.Selected(&m.Spec.Nodes, nodes)
	if err != nil {
		return drain.Request{}, err
	}
	if len(names) == 0 {
		return drain.Request{}, fmt.Errorf("no node has the labels %s (the cluster has %d nodes)", metav1.FormatLabelSelector(m.Spec.Nodes.Selector), len(nodes))
	}
	if _, err := resolveNodes(view.Cluster, names, ""); err != nil {
		return drain.Request{}, fmt.Errorf("spec.nodes: %s", strings.ReplaceAll(err.Error(), "; nothing was changed", ""))
	}
	req := maintenance.Plan(m, names, view.Now)
	if !req.Deadline.IsZero() && !req.Deadline.After(view.Now) {
		return req, errors.New("spec.deadlineTime has already passed")
	}
	return req, nil
}
