package maintenance

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// outOfService is what counts against the limits of all maintenances.
type outOfService struct {
	nodes map[string]bool
	zones map[string]bool
}

// room reports whether another node may leave service for a maintenance.
func (o outOfService) room(n *Node, limits *v1alpha1.MaintenanceConcurrency) bool {
	zones := len(o.zones)
	if !o.zones[n.Zone] {
		zones++
	}
	return len(o.nodes)+1 <= atLeastOne(limits.Nodes) && zones <= atLeastOne(limits.Zones)
}

func atLeastOne(n int32) int { return int(max(1, n)) }

func (o outOfService) add(n *Node) { o.nodes[n.Name], o.zones[n.Zone] = true, true }

// begin gives nodes whose turn has come an entry in every maintenance that waits for them. A node that is out of service already takes
// no room. Else all of these have to have room for it: the tightest limit holds.
func (d *decider) begin() {
	out, held := d.outOfService()
	for _, n := range d.inTurn(out) {
		waiting := d.waiting(n.Name)
		if len(waiting) == 0 {
			continue
		}
		room := func(w *work) bool { return out.room(n, &w.m.Spec.Concurrency) }
		if !held[n.Name] && slices.ContainsFunc(waiting, func(w *work) bool { return !room(w) }) {
			continue
		}
		for _, w := range waiting {
			w.begin(n, metav1.NewTime(d.Now))
		}
		if !held[n.Name] {
			out.add(n)
		}
	}
}

// begin enters a node. Nothing is done to it before the entry is in the API.
func (w *work) begin(n *Node, now metav1.Time) {
	w.status.Nodes = append(w.status.Nodes, v1alpha1.MaintainedNode{
		Name: n.Name, UID: n.UID, Step: v1alpha1.StepDraining, StartTime: now, StepTime: now, BootID: n.BootID, KubeletVersion: n.KubeletVersion,
	})
}

// waiting returns the maintenances that wait for a node. One that has no finalizer yet begins nothing: it could be gone before it is seen
// that its nodes have to be given back.
func (d *decider) waiting(node string) []*work {
	var found []*work
	for _, w := range d.works {
		if w.waitsFor(node) && w.unusable == nil && slices.Contains(w.m.Finalizers, Finalizer) {
			found = append(found, w)
		}
	}
	return found
}

// outOfService returns what counts as out of service, and the names of all nodes in work, or not yet given back. Not counted are nodes that are drained and kept,
// and those that were not touched because of what would be lost.
func (d *decider) outOfService() (outOfService, map[string]bool) {
	out, held := outOfService{map[string]bool{}, map[string]bool{}}, map[string]bool{}
	for _, n := range d.Nodes {
		if d.goingBack(n) {
			held[n.Name] = true
			out.add(n)
		}
	}
	for _, w := range d.works {
		for i := range w.status.Nodes {
			e := &w.status.Nodes[i]
			n := d.nodes[e.Name]
			if n == nil {
				continue
			}
			held[e.Name] = true
			if e.Step != v1alpha1.StepDrained && !d.untouched(n) {
				out.add(n)
			}
		}
	}
	return out, held
}

// goingBack reports whether a node has the record of a maintenance that has none of it any more, so that it is being given back.
func (d *decider) goingBack(n *Node) bool {
	return Owned(n.Node) && !slices.ContainsFunc(d.works, func(w *work) bool { return w.entry(n.Name) != nil })
}

// untouched reports whether a node was not cordoned because something objects to its drain.
func (d *decider) untouched(n *Node) bool {
	drain := d.Drains[n.Name]
	return drain != nil && !drain.Begun && len(drain.Blockers) > 0 && !Owned(n.Node)
}

// inTurn returns the nodes in the order in which they are begun: zone by zone, the zones first in which nodes are out of service already.
func (d *decider) inTurn(out outOfService) []*Node {
	nodes := slices.Clone(d.Nodes)
	started := func(n *Node) int {
		if out.zones[n.Zone] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(nodes, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(started(a), started(b)), cmp.Compare(a.Zone, b.Zone))
	})
	return nodes
}
