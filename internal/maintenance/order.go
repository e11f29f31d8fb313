package maintenance

import "usher.sh/usher/api/v1alpha1"

// order says what is to become of a node, by what the statuses in the API have of it.
func (d *decider) order(node string) {
	var going []*v1alpha1.NodeMaintenance
	wanted, draining, goesOn := false, false, false
	for _, w := range d.works {
		wanted = wanted || w.wants(node)
		e := w.stored(node)
		if next := w.entry(node); e == nil || next == nil || next.Step != e.Step || !w.live() {
			continue // it is to be in another step, or in none: once that is written
		}
		draining = draining || e.Step == v1alpha1.StepDraining
		if w.active() {
			going = append(going, w.m)
			goesOn = goesOn || e.Step == v1alpha1.StepDraining
		}
	}
	n := d.nodes[node]
	switch {
	case goesOn:
		d.out.Orders = append(d.out.Orders, Order{node, DrainNode, termsOf(going)})
	case draining:
		d.out.Orders = append(d.out.Orders, Order{Node: node, Want: StopDrain})
	case !wanted && (n != nil && Owned(n.Node) || d.Drains[node] != nil && !d.Drains[node].Stopped):
		d.out.Orders = append(d.out.Orders, Order{Node: node, Want: GiveBack})
	}
}
