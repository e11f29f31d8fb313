package maintenance

import (
	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
)

// order says what is to become of a node, by what the statuses in the API have of it.
func (d *decider) order(node string) {
	var going []*v1alpha1.NodeMaintenance
	wanted, draining, goesOn, changes := false, false, false, false
	for _, w := range d.works {
		wanted = wanted || w.wants(node)
		e := w.stored(node)
		if next := w.entry(node); e == nil || next == nil || next.Step != e.Step || !w.live() {
			changes = changes || w.live() && (e != nil || next != nil)
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
	case draining, wanted && !changes && d.drainGoesOn(node):
		d.out.Orders = append(d.out.Orders, Order{Node: node, Want: StopDrain})
	case !wanted && (n != nil && Owned(n.Node) || d.Drains[node] != nil && !d.Drains[node].Stopped):
		d.out.Orders = append(d.out.Orders, Order{Node: node, Want: GiveBack})
	}
}

// drainGoesOn reports whether a drain of the node has not come to its end, though no object asks for it: those that have the node had
// it drained before, and no drain is to go on under the terms of one that has gone.
func (d *decider) drainGoesOn(node string) bool {
	run, n := d.Drains[node], d.nodes[node]
	switch {
	case run.over() && run.Outcome == drain.Drained:
		return false
	case run != nil && !run.Stopped && !run.over():
		return true
	}
	return n != nil && Owned(n.Node) && Unended(n.Drain)
}
