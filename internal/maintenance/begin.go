package maintenance

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/notice"
)

// outOfService is what counts against the limits of all maintenances.
type outOfService struct {
	nodes map[string]bool
	zones map[string]bool
}

// room reports whether a node may leave service for a maintenance.
func (o outOfService) room(n *Node, limits *v1alpha1.MaintenanceConcurrency) bool {
	nodes, zones := len(o.nodes), len(o.zones)
	if !o.nodes[n.Name] {
		nodes++
	}
	if !o.zones[n.Zone] {
		zones++
	}
	return nodes <= atLeastOne(limits.Nodes) && zones <= atLeastOne(limits.Zones)
}

// without returns the first maintenance that has no room for another node, nil where all have. A node that goes by itself waits for no room: it is out of
// service soon, drained or not.
func (o outOfService) without(n *Node, all []*work) *work {
	if slices.ContainsFunc(all, (*work).leaves) {
		return nil
	}
	for _, w := range all {
		if !o.room(n, &w.m.Spec.Concurrency) {
			return w
		}
	}
	return nil
}

func atLeastOne(n int32) int { return int(max(1, n)) }

func (o outOfService) add(n *Node) { o.nodes[n.Name], o.zones[n.Zone] = true, true }

// takeTurns says which nodes in work that nothing was done to yet may be cordoned now: those for which every maintenance that has them, or is to
// have them, has room. What objected to several nodes may go at one moment, and a process that leads anew has looked at none.
func (d *decider) takeTurns(out outOfService) {
	for _, n := range d.inTurn(out) {
		in := d.inWork(n)
		if len(in) == 0 || d.touched(n) || d.Drains[n.Name] != nil && !d.unobjected(n) {
			continue
		}
		if limit := out.without(n, append(in, d.waiting(n.Name)...)); limit != nil {
			d.waits[n.Name] = limit
			shortage{n.Name, limit}.lack(in)
			continue
		}
		d.turns[n.Name] = true
		out.add(n)
	}
}

// inWork returns the maintenances that go on and have a node in work that is not drained.
func (d *decider) inWork(n *Node) []*work {
	var found []*work
	for _, w := range d.works {
		if e := w.entry(n.Name); w.active() && e != nil && e.Step == v1alpha1.StepDraining {
			found = append(found, w)
		}
	}
	return found
}

// begin gives nodes whose turn has come an entry in every maintenance that waits for them. A node that is in work already takes no room.
// Else all of these have to have room for it: the tightest limit holds.
func (d *decider) begin() {
	out, held := d.outOfService()
	d.service = out
	d.takeTurns(out)
	untouched := d.untouched()
	for _, n := range d.inTurn(out) {
		waiting := d.waiting(n.Name)
		if len(waiting) == 0 {
			continue
		}
		if limit := out.without(n, waiting); limit != nil && !held[n.Name] {
			shortage{n.Name, limit}.lack(waiting)
			continue
		}
		if d.enter(n, waiting, held[n.Name], untouched) && !held[n.Name] {
			out.add(n)
		}
	}
}

// enter gives a node an entry in those of the maintenances whose statuses have room for it, and reports whether there are such: the others do not hold
// it up. Where what objects to its drain is to be known first, it is looked for.
func (d *decider) enter(n *Node, waiting []*work, held bool, untouched map[*work]int) (entered bool) {
	free := d.touched(n) || d.unobjected(n)
	if !free && !d.mayEnter(n, waiting, held, untouched) {
		d.lookInto(n, waiting)
		return false
	}
	for _, w := range waiting {
		if w.crowded() {
			shortage{node: n.Name}.lack([]*work{w})
			continue
		}
		w.begin(n, metav1.NewTime(d.Now))
		entered = true
		if !free {
			untouched[w]++
		}
	}
	return entered
}

// lookInto has it looked for what objects to the drain of a node that has no entry.
func (d *decider) lookInto(n *Node, waiting []*work) {
	for _, w := range waiting {
		d.looks[n.Name] = append(d.looks[n.Name], w.m)
	}
}

// mostUntouched is how many nodes that nothing was done to a maintenance has in work: with all that is said of more its status would be full. Others
// get an entry once nothing objects to their drains.
const mostUntouched = 100

// untouched counts the nodes in work that nothing was done to.
func (d *decider) untouched() map[*work]int {
	counts := map[*work]int{}
	for _, w := range d.works {
		for i := range w.status.Nodes {
			if e := &w.status.Nodes[i]; e.Step == v1alpha1.StepDraining && d.nodes[e.Name] != nil && !d.touched(d.nodes[e.Name]) {
				counts[w]++
			}
		}
	}
	return counts
}

// mayEnter reports whether a node that nothing was done to, and to which something objects or may, gets an entry in the maintenances that wait for it.
// Where it is not known yet, all that may begin with it have to have room for one: those that begin together are not parted.
func (d *decider) mayEnter(n *Node, waiting []*work, held bool, untouched map[*work]int) bool {
	run := d.Drains[n.Name]
	known := run.objected() || held
	return !slices.ContainsFunc(waiting, func(w *work) bool {
		together := 1
		if !known {
			together = min(atLeastOne(w.m.Spec.Concurrency.Nodes), len(w.names))
		}
		return untouched[w]+together > mostUntouched
	})
}

// unobjected reports whether it is known that nothing objects to the drain of a node.
func (d *decider) unobjected(n *Node) bool {
	return d.Drains[n.Name] != nil && d.Drains[n.Name].clear()
}

// begin enters a node. Nothing is done to it before the entry is in the API.
func (w *work) begin(n *Node, now metav1.Time) {
	e := v1alpha1.MaintainedNode{
		Name: n.Name, UID: n.UID, Step: v1alpha1.StepDraining, StartTime: now, StepTime: now, BootID: idOf(n.BootID), KubeletVersion: idOf(n.KubeletVersion),
	}
	w.status.Nodes, w.size = append(w.status.Nodes, e), w.size+sizeOfEntry(&e)
}

// mayBegin reports whether the maintenance waits for a node. One that has no finalizer yet begins nothing: it could be gone before it is seen
// that its nodes have to be given back.
func (w *work) mayBegin(node string) bool {
	return w.waitsFor(node) && w.unusable == nil && slices.Contains(w.m.Finalizers, Finalizer)
}

// waiting returns the maintenances that wait for a node.
func (d *decider) waiting(node string) []*work {
	var found []*work
	for _, w := range d.works {
		if w.mayBegin(node) {
			found = append(found, w)
		}
	}
	return found
}

// outOfService returns what counts as out of service, and the names of all nodes in work, or not yet given back. Not counted are nodes that are drained and kept,
// and those that nothing was done to yet: they have to have room once that is to be.
func (d *decider) outOfService() (outOfService, map[string]bool) {
	out, held := outOfService{map[string]bool{}, map[string]bool{}}, map[string]bool{}
	for _, n := range d.Nodes {
		if d.goingBack(n) {
			held[n.Name] = Owned(n.Node)
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
			if e.Step != v1alpha1.StepDrained && (e.Step != v1alpha1.StepDraining || d.touched(n)) {
				out.add(n)
			}
		}
	}
	return out, held
}

// goingBack reports whether a node has the record of a maintenance, or a drain, and none has it in work any more, so that it is being given back.
func (d *decider) goingBack(n *Node) bool {
	return d.touched(n) && !slices.ContainsFunc(d.works, func(w *work) bool { return w.entry(n.Name) != nil })
}

// touched reports whether a node is a maintenance's, or its drain may cordon it at any moment.
func (d *decider) touched(n *Node) bool {
	run := d.Drains[n.Name]
	return Owned(n.Node) || run != nil && (run.Begun || !run.Checks)
}

// leaves reports whether the nodes of a maintenance go by themselves, as a notice says.
func (w *work) leaves() bool { return notice.Leaves(w.m.Spec.Requester) }

// inTurn returns the nodes in the order in which they are begun: those that go by themselves, so that the others see them out of service, and then zone by
// zone, the zones first in which nodes are out of service already.
func (d *decider) inTurn(out outOfService) []*Node {
	nodes := slices.Clone(d.Nodes)
	started := func(n *Node) int {
		if out.zones[n.Zone] {
			return 0
		}
		return 1
	}
	stays := d.stays()
	slices.SortStableFunc(nodes, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(stays(a), stays(b)), cmp.Compare(started(a), started(b)), cmp.Compare(a.Zone, b.Zone))
	})
	return nodes
}

// stays orders nodes: those that a maintenance is to drain which go by themselves come before all others.
func (d *decider) stays() func(*Node) int {
	leaves := map[string]bool{}
	for _, w := range d.works {
		if !w.active() || !w.leaves() {
			continue
		}
		for _, name := range w.names {
			leaves[name] = leaves[name] || !w.done(name)
		}
	}
	return func(n *Node) int {
		if leaves[n.Name] {
			return 0
		}
		return 1
	}
}
