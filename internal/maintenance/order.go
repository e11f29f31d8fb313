package maintenance

import (
	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
)

// order says what is to become of a node, by what the statuses in the API have of it.
func (d *decider) order(node string) {
	all := d.wantsOf(node)
	n := d.nodes[node]
	switch {
	case all.goesOn:
		want := DrainNode
		if n != nil && !d.touched(n) && !d.turns[node] {
			want = CheckNode
		}
		d.out.Orders = append(d.out.Orders, Order{node, want, termsOf(all.going)})
	case d.looks[node] != nil:
		d.out.Orders = append(d.out.Orders, Order{node, CheckNode, termsOf(d.looks[node])})
	case all.draining, all.wanted && !all.changes && d.drainGoesOn(node):
		d.out.Orders = append(d.out.Orders, Order{Node: node, Want: StopDrain})
	case all.changes && d.Drains[node] != nil:
		d.out.Orders = append(d.out.Orders, Order{Node: node, Want: KeepDrain})
	case !all.wanted && (n != nil && Owned(n.Node) || d.Drains[node] != nil && !d.Drains[node].Stopped):
		d.out.Orders = append(d.out.Orders, Order{Node: node, Want: GiveBack})
	}
}

// wants is what maintenances want of a node.
type wants struct {
	wanted   bool                        // one wants it, if only to keep it
	draining bool                        // one has it in draining, which may be suspended
	goesOn   bool                        // one that is not suspended has
	changes  bool                        // one has it in a step that changes, once that is written
	going    []*v1alpha1.NodeMaintenance // those by whose terms it is drained
}

func (d *decider) wantsOf(node string) wants {
	var all wants
	for _, w := range d.works {
		all.wanted = all.wanted || w.wants(node)
		e, next := w.stored(node), w.entry(node)
		switch {
		case !w.live():
		case e == nil && next == nil:
			if w.mayBegin(node) { // it has no room for an entry: the node is drained by its terms, too
				all.going = append(all.going, w.m)
			}
		case e == nil || next == nil || next.Step != e.Step:
			all.changes = all.changes || e != nil || next != nil
		default:
			all.draining = all.draining || e.Step == v1alpha1.StepDraining
			if w.active() {
				all.going = append(all.going, w.m)
				all.goesOn = all.goesOn || e.Step == v1alpha1.StepDraining
			}
		}
	}
	return all
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
