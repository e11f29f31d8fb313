package maintenance

import (
	"cmp"
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// decider holds one decision while it is being made.
type decider struct {
	Input

	nodes   map[string]*Node
	works   []*work                                // that drain
	markers []*work                                // that do not
	turns   map[string]bool                        // nodes in work that nothing was done to yet, and that have room now
	waits   map[string]*work                       // nodes in work that nothing objects to, and one that has no room for each
	looks   map[string][]*v1alpha1.NodeMaintenance // nodes that get an entry once nothing objects, and by whose terms that is looked for
	service outOfService                           // also what is begun now
	held    holders                                // in words, once all is begun
	out     Decision
}

// work is one maintenance and its status as it is to be.
type work struct {
	m        *v1alpha1.NodeMaintenance
	status   *v1alpha1.NodeMaintenanceStatus
	names    []string // of the nodes it selects
	selects  map[string]bool
	unusable error     // why it selects none that can be worked on
	size     int       // of its status, without blockers and conditions
	most     int       // how much that may be
	lacks    *shortage // what the first of its nodes that have no room waits for
}

// live reports whether the maintenance still wants its nodes.
func (w *work) live() bool { return w.m.DeletionTimestamp == nil }

// active reports whether the maintenance goes on.
func (w *work) active() bool { return w.live() && !w.m.Spec.Suspend }

func (w *work) entry(node string) *v1alpha1.MaintainedNode { return entryOf(w.status.Nodes, node) }

// stored returns the entry of a node that is in the API, nil where there is none.
func (w *work) stored(node string) *v1alpha1.MaintainedNode { return entryOf(w.m.Status.Nodes, node) }

func entryOf(entries []v1alpha1.MaintainedNode, node string) *v1alpha1.MaintainedNode {
	for i := range entries {
		if entries[i].Name == node {
			return &entries[i]
		}
	}
	return nil
}

// wants reports whether the maintenance has a node in work, or is to have it. One that has no room for it begins it anew later.
func (w *work) wants(node string) bool {
	return w.live() && (w.stored(node) != nil || w.entry(node) != nil || w.waitsFor(node) && !w.crowded())
}

// waitsFor reports whether a node that the maintenance selects is neither done nor in work.
func (w *work) waitsFor(node string) bool {
	return w.active() && w.selects[node] && !w.done(node) && w.entry(node) == nil
}

func (w *work) done(node string) bool { return slices.Contains(w.status.DoneNodes, node) }

// Decide returns what to do now.
func Decide(in Input) Decision {
	d := &decider{Input: in, nodes: make(map[string]*Node, len(in.Nodes)), turns: map[string]bool{}, waits: map[string]*work{}, looks: map[string][]*v1alpha1.NodeMaintenance{}}
	d.Nodes = slices.Clone(in.Nodes)
	slices.SortFunc(d.Nodes, func(a, b *Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, n := range d.Nodes {
		d.nodes[n.Name] = n
	}
	d.gather()
	for _, w := range d.all() {
		d.advance(w)
		w.measure()
	}
	d.begin()
	d.beginMarks()
	d.keepBegun()
	for _, name := range d.concerned() {
		d.order(name)
	}
	d.noteConditions()
	d.noteMarks()
	d.conclude()
	return d.out
}

// gather makes a work of each maintenance, oldest first.
func (d *decider) gather() {
	all := slices.Clone(d.Maintenances)
	slices.SortFunc(all, func(a, b *v1alpha1.NodeMaintenance) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, m := range all {
		w := &work{m: m, most: mostSize(m), status: m.Status.DeepCopy(), selects: map[string]bool{}}
		if w.live() {
			w.names, w.unusable = w.selected(d.Nodes)
		}
		for _, name := range w.names {
			w.selects[name] = true
		}
		w.measure()
		if Drains(m) {
			d.works = append(d.works, w)
		} else {
			d.markers = append(d.markers, w)
		}
	}
}

// all are the works of all maintenances.
func (d *decider) all() []*work { return slices.Concat(d.works, d.markers) }

// concerned returns the names of all nodes to which something may be done, or is done.
func (d *decider) concerned() []string {
	found := map[string]bool{}
	for name := range d.Drains {
		found[name] = true
	}
	for name := range d.looks {
		found[name] = true
	}
	for _, n := range d.Nodes {
		if Owned(n.Node) {
			found[n.Name] = true
		}
	}
	for _, w := range d.works {
		for i := range w.m.Status.Nodes {
			found[w.m.Status.Nodes[i].Name] = true
		}
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// wake asks for another look at t, if nothing happens before.
func (d *decider) wake(t time.Time) {
	if t.After(d.Now) && (d.out.Next.IsZero() || t.Before(d.out.Next)) {
		d.out.Next = t
	}
}
