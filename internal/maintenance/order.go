package maintenance

import (
	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
)

// order says what is to become of a node, by what the statuses in the API have of it.
func (d *decider) order(node string) {
	c := d.claimsOf(node)
	n := d.nodes[node]
	switch {
	case c.goesOn:
		d.out.Orders = append(d.out.Orders, Order{node, DrainNode, termsOf(c.going)})
	case c.draining, c.wanted && !c.changes && d.drainGoesOn(node):
		d.out.Orders = append(d.out.Orders, Order{Node: node, Want: StopDrain})
	case !c.wanted && (n != nil && Owned(n.Node) || d.Drains[node] != nil && !d.Drains[node].Stopped):
		d.out.Orders = append(d.out.Orders, Order{Node: node, Want: GiveBack})
	}
}

// claims is what maintenances want of a node.
type claims struct {
	wanted   bool                        // one wants it, if only to keep it
	draining bool                        // one has it in draining, which may be suspended
	goesOn   bool                        // one that is not suspended has
	changes  bool                        // one has it in a step that changes, once that is written
	going    []*v1alpha1.NodeMaintenance // those by whose terms it is drained
}

func (d *decider) claimsOf(node string) claims {
	var c claims
	for _, w := range d.works {
		c.wanted = c.wanted || w.wants(node)
		e, next := w.stored(node), w.entry(node)
		switch {
		case !w.live():
		case e == nil || next == nil || next.Step != e.Step:
			c.changes = c.changes || e != nil || next != nil
		default:
			c.draining = c.draining || e.Step == v1alpha1.StepDraining
			if w.active() {
				c.going = append(c.going, w.m)
				c.goesOn = c.goesOn || e.Step == v1alpha1.StepDraining
			}
		}
	}
	return c
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
