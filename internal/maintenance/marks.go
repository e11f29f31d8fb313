package maintenance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// actionOf is what a maintenance does to its nodes.
func actionOf(m *v1alpha1.NodeMaintenance) v1alpha1.MaintenanceAction {
	return cmp.Or(m.Spec.Action, v1alpha1.ActionDrain)
}

// Drains reports whether pods leave for a maintenance.
func Drains(m *v1alpha1.NodeMaintenance) bool { return actionOf(m) == v1alpha1.ActionDrain }

// markOf is the word by which the record on a node names what a maintenance sets there beside drains; "": it sets nothing.
func markOf(m *v1alpha1.NodeMaintenance) string {
	switch taint := m.Spec.Taint; {
	case actionOf(m) == v1alpha1.ActionCordon:
		return snapshot.CordonMark
	case actionOf(m) == v1alpha1.ActionTaint && taint != nil:
		set := corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: corev1.TaintEffect(cmp.Or(taint.Effect, v1alpha1.TaintNoSchedule))}
		return set.ToString()
	}
	return ""
}

// taintOf is the taint that a mark names.
func taintOf(mark string) corev1.Taint {
	rest, effect, _ := strings.Cut(mark, ":")
	key, value, _ := strings.Cut(rest, "=")
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
}

// Marks are those that a node is to have and to lose. Those of others stay.
type Marks struct {
	Node    string
	UID     types.UID
	Wanted  []string // of two that cannot both be there the first counts
	Release []string
}

// MarksChange is what is to be written on a node, in one write: its record, and what that is about.
type MarksChange struct {
	Marks         []string
	Unschedulable *bool           // nil: as it is
	Taints        *[]corev1.Taint // nil: as they are
}

// On returns what is to be written on a node as it was read; nil: nothing. A mark that is on the record is not set anew: where what it is about has gone, another
// client has taken it away. A cordon that another client has set has no mark, and stays. One that a drain has set is kept by the mark once that ends, so
// that it goes once there is no drain.
func (m *Marks) On(n *snapshot.Node) *MarksChange {
	if n.UID != m.UID {
		return nil
	}
	c := &MarksChange{Marks: slices.Clone(n.Marks)}
	taints := slices.Clone(n.Taints)
	for _, mark := range m.Release {
		taints = c.release(n, mark, taints)
	}
	for _, mark := range m.Wanted {
		taints = c.set(n, mark, taints)
	}
	if !slices.Equal(taints, n.Taints) {
		c.Taints = &taints
	}
	if slices.Equal(c.Marks, n.Marks) {
		return nil
	}
	return c
}

// release takes a mark off, with what it is about, and returns the taints that are left.
func (c *MarksChange) release(n *snapshot.Node, mark string, taints []corev1.Taint) []corev1.Taint {
	switch {
	case !slices.Contains(c.Marks, mark) || mark == snapshot.CordonMark && hasDrain(n):
		return taints
	case mark != snapshot.CordonMark:
		taints = slices.DeleteFunc(taints, sameTaint(mark))
	case n.Unschedulable && n.CordonedBy == "":
		c.Unschedulable = new(false)
	}
	c.Marks = slices.DeleteFunc(c.Marks, func(has string) bool { return has == mark })
	return taints
}

// set puts a mark on, with what it is about, and returns the taints that there are then.
func (c *MarksChange) set(n *snapshot.Node, mark string, taints []corev1.Taint) []corev1.Taint {
	switch {
	case slices.Contains(c.Marks, mark), mark != snapshot.CordonMark && slices.ContainsFunc(taints, inPlaceOf(mark)):
		return taints
	case mark != snapshot.CordonMark:
		taints = append(taints, taintOf(mark))
	case n.Unschedulable && !cordonedByDrain(n):
		return taints
	case !n.Unschedulable:
		c.Unschedulable = new(true)
	}
	c.Marks = append(c.Marks, mark)
	return taints
}

// hasDrain reports whether a node has the record of a drain, readable or not.
func hasDrain(n *snapshot.Node) bool { return n.Drain != nil || n.DrainError != "" }

func cordonedByDrain(n *snapshot.Node) bool {
	return n.Unschedulable && n.Drain != nil && n.Drain.Cordoned
}

// sameTaint reports whether a taint is the one that a mark names.
func sameTaint(mark string) func(corev1.Taint) bool {
	return func(t corev1.Taint) bool { return t.ToString() == mark }
}

// inPlaceOf reports whether a taint is where the one that a mark names would be: a node has one of each key and effect.
func inPlaceOf(mark string) func(corev1.Taint) bool {
	wanted := taintOf(mark)
	return func(t corev1.Taint) bool { return t.MatchTaint(&wanted) }
}

// keepMarked advances an entry of a maintenance that drains nothing, and reports whether it stays.
func (d *decider) keepMarked(w *work, e *v1alpha1.MaintainedNode) bool {
	n := d.nodes[e.Name]
	switch {
	case !d.same(e):
		w.finish(e.Name)
		return false
	case w.leavesBehind(e.Name):
		return d.unmarking(w, e, n)
	case w.m.Spec.Suspend:
		block(e)
		return true
	}
	for {
		step := e.Step
		if !d.advanceMarked(w, e, n) {
			w.finish(e.Name)
			return false
		}
		if e.Step == step {
			return true
		}
	}
}

// leavesBehind reports whether a maintenance does not want a node any more that it has in work.
func (w *work) leavesBehind(node string) bool {
	return !w.live() || !w.selects[node] && w.unusable == nil
}

// advanceMarked takes an entry one step on, if its step is over, and reports whether the maintenance has still to do with its node.
func (d *decider) advanceMarked(w *work, e *v1alpha1.MaintainedNode, n *Node) bool {
	switch e.Step {
	case v1alpha1.StepCallingHook:
		return !d.called(w, e) || d.follow(w, e, 1)
	case v1alpha1.StepWaiting:
		return !d.waited(w, e, n) || d.follow(w, e, 2)
	case v1alpha1.StepMarking:
		if w.noteMark(e, n) {
			return d.follow(w, e, 0)
		}
	default:
		w.noteMark(e, n)
	}
	return true
}

// noteMark reports whether a node has what the maintenance sets, and enters what keeps it from that.
func (w *work) noteMark(e *v1alpha1.MaintainedNode, n *Node) bool {
	mark := markOf(w.m)
	recorded, taken := slices.Contains(n.Marks, mark), slices.ContainsFunc(n.Taints, inPlaceOf(mark))
	block(e)
	switch {
	case mark == "":
		return true
	case mark == snapshot.CordonMark && n.Unschedulable:
		return recorded || !cordonedByDrain(n.Node)
	case mark != snapshot.CordonMark && slices.ContainsFunc(n.Taints, sameTaint(mark)):
		return true
	case mark == snapshot.CordonMark && recorded:
		block(e, v1alpha1.MaintenanceBlocker{
			Reason: "NodeNotCordoned", Message: "the node was made schedulable by another client since it was cordoned",
			Remedy: "give the node back: usher maintain --delete " + w.m.Name + "; or cordon it: kubectl cordon " + n.Name,
		})
	case recorded:
		block(e, v1alpha1.MaintenanceBlocker{
			Reason: "TaintRemoved", Message: fmt.Sprintf("another client has taken the taint %s off the node", mark),
			Remedy: "give the node back: usher maintain --delete " + w.m.Name,
		})
	case taken:
		block(e, v1alpha1.MaintenanceBlocker{
			Reason: "TaintTaken", Message: fmt.Sprintf("the node has another taint of the key and effect of %s, and can have one of each", mark),
			Remedy: "take that taint off, or delete what sets it; or give the node back: usher maintain --delete " + w.m.Name,
		})
	}
	e.Blocked = len(e.Blockers) > 0
	return false
}

// unmarking reports whether a node still has what a maintenance that does not want it any more has set, and nothing else wants.
func (d *decider) unmarking(w *work, e *v1alpha1.MaintainedNode, n *Node) bool {
	mark := markOf(w.m)
	block(e)
	if !slices.Contains(n.Marks, mark) || slices.ContainsFunc(d.markers, func(o *work) bool { return o.wantsMark(mark, n) }) {
		return false
	}
	if mark == snapshot.CordonMark && hasDrain(n.Node) {
		block(e, v1alpha1.MaintenanceBlocker{
			Reason: "NodeInDrain", Message: "the cordon stays while the node has the record of a drain",
			Remedy: fmt.Sprintf("end that drain and give the node back: usher uncordon %s says whose it is", n.Name),
		})
	}
	return true
}

// wantsMark reports whether a maintenance wants a mark on a node, or keeps it there while it is suspended. Nothing is set before its entry is in the API.
func (w *work) wantsMark(mark string, n *Node) bool {
	e := w.stored(n.Name)
	if e == nil || e.UID != n.UID || w.leavesBehind(n.Name) || markOf(w.m) != mark {
		return false
	}
	return w.active() || slices.Contains(n.Marks, mark)
}

// beginMarks gives nodes an entry in the maintenances that wait for them and drain nothing. They wait for no room: no pod leaves.
func (d *decider) beginMarks() {
	for _, w := range d.markers {
		for _, name := range w.names {
			n := d.nodes[name]
			switch {
			case n == nil || !w.mayBegin(name):
			case w.crowded():
				shortage{node: name}.lack([]*work{w})
			default:
				w.begin(n, metav1.NewTime(d.Now))
				w.entry(name).Step = firstStep(w.m)
			}
		}
	}
}

func firstStep(m *v1alpha1.NodeMaintenance) v1alpha1.MaintenanceStep {
	if actionOf(m) == v1alpha1.ActionHook {
		return v1alpha1.StepCallingHook
	}
	return v1alpha1.StepMarking
}

// noteMarks has nodes get the marks that maintenances want, and lose those that one of them has set and none wants any more. Others on the record of a node
// are no maintenance's: who may write a node may write anything there.
func (d *decider) noteMarks() {
	found := map[string]*Marks{}
	for _, w := range d.markers {
		for i := range w.m.Status.Nodes {
			n := d.nodes[w.m.Status.Nodes[i].Name]
			if markOf(w.m) == "" || n == nil || n.UID != w.m.Status.Nodes[i].UID {
				continue
			}
			if found[n.Name] == nil {
				found[n.Name] = &Marks{Node: n.Name, UID: n.UID}
			}
			w.markNode(found[n.Name], n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		m := found[name]
		m.Release = slices.DeleteFunc(m.Release, func(mark string) bool { return slices.Contains(m.Wanted, mark) })
		if m.On(d.nodes[name].Node) != nil {
			d.out.Marks = append(d.out.Marks, *m)
		}
	}
}

// markNode adds what a maintenance has a node get or lose.
func (w *work) markNode(m *Marks, n *Node) {
	mark := markOf(w.m)
	switch {
	case w.wantsMark(mark, n):
		m.Wanted = append(m.Wanted, mark)
	case w.leavesBehind(n.Name):
		m.Release = append(m.Release, mark)
	}
}

// keptStep is the step of a node that is kept until the maintenance is deleted.
func (w *work) keptStep() v1alpha1.MaintenanceStep {
	if Drains(w.m) {
		return v1alpha1.StepDrained
	}
	return v1alpha1.StepMarked
}

// keptWords say of so many nodes that they are kept.
func (w *work) keptWords(nodes string) string {
	switch actionOf(w.m) {
	case v1alpha1.ActionCordon:
		return nodes + " cordoned until this object is deleted"
	case v1alpha1.ActionTaint:
		return nodes + " tainted until this object is deleted"
	case v1alpha1.ActionDrain, v1alpha1.ActionHook:
	}
	return nodes + " drained and kept cordoned until this object is deleted"
}
