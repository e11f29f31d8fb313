package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/snapshot"
)

// mostMaintenance is how large a file with a NodeMaintenance may be, in bytes: dumps are larger, and are not read here.
const mostMaintenance = 1 << 20

// maintenanceIn returns the NodeMaintenance that a file begins with, nil where it is something else: a dump, say. Standard input is one.
func maintenanceIn(name string) (*v1alpha1.NodeMaintenance, error) {
	if name == "" || name == "-" {
		return nil, nil
	}
	info, err := os.Stat(name)
	if err != nil || info.Size() > mostMaintenance || !info.Mode().IsRegular() {
		return nil, nil //nolint:nilerr // whoever reads the dump says so
	}
	text, err := os.ReadFile(name) //nolint:gosec // the file that the caller named
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	var found *v1alpha1.NodeMaintenance
	for documents := 0; ; documents++ {
		var m v1alpha1.NodeMaintenance
		err := decoder.Decode(&m)
		switch {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil && found == nil || m.Kind != "NodeMaintenance":
			return nil, nil // a dump, or nothing that can be read: whoever reads the dump says so
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case found != nil:
			return nil, fmt.Errorf("%s has several NodeMaintenances: plan one at a time", name)
		}
		found = &m
	}
}

// planOfMaintenance is the drain of all nodes that a maintenance selects now, as many at a time as it allows.
func planOfMaintenance(m *v1alpha1.NodeMaintenance, view snapshot.View) (drain.Request, error) {
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
