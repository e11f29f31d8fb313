package maintenance

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.sh/usher/api/v1alpha1"
)

// MostNodes is how many nodes one maintenance may select.
const MostNodes = 5000

// Selected returns the names of the nodes that a selection means now, in their order, or why it means none that can be worked on.
func Selected(selection *v1alpha1.NodeSelection, nodes []*Node) ([]string, error) {
	if selection.Selector == nil {
		return selection.Names, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(selection.Selector)
	if err != nil {
		return nil, fmt.Errorf("spec.nodes.selector: %w", err)
	}
	var names []string
	for _, n := range nodes {
		if selector.Matches(labels.Set(n.Labels)) {
			names = append(names, n.Name)
		}
	}
	if len(names) > MostNodes {
		return nil, fmt.Errorf("it selects %d nodes, and one maintenance may have %d: make several, with narrower selectors", len(names), MostNodes)
	}
	if sizeOfNames(names) > mostSelected {
		return nil, fmt.Errorf("the names of the %d nodes that it selects are longer than one maintenance can hold: make several, with narrower selectors", len(names))
	}
	return names, nil
}

// selected returns the nodes that a maintenance selects, itself or by what its status has kept of a fixed selection.
func (w *work) selected(nodes []*Node) ([]string, error) {
	spec := &w.m.Spec.Nodes
	if spec.Selector == nil || spec.Selection == v1alpha1.SelectionDynamic {
		return Selected(spec, nodes)
	}
	if len(w.m.Status.SelectedNodes) > 0 {
		return w.m.Status.SelectedNodes, nil
	}
	names, err := Selected(spec, nodes)
	if err == nil {
		w.status.SelectedNodes = slices.Clone(names)
	}
	return names, err
}
