package maintenance

import (
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// The conditions of a maintenance, as kstatus reads them, and their reasons.
const (
	conditionReady       = "Ready"
	conditionReconciling = "Reconciling"
	conditionStalled     = "Stalled"

	reasonComplete   = "Complete"
	reasonInProgress = "InProgress"
	reasonSuspended  = "Suspended"
	reasonDeleting   = "GivingBack"
	reasonBlocked    = "Blocked"
	reasonNoNodes    = "NoNodesSelected"
	reasonUnusable   = "UnusableSelection"
	reasonNotFound   = "NodeNotFound"
	reasonWaits      = "WaitsForRoom"
	reasonNoRoom     = "NoRoom" // it waits for what waiting does not clear
)

// conclude returns the statuses that are to change, and whose finalizers.
func (d *decider) conclude() {
	d.out.Statuses = map[string]*v1alpha1.NodeMaintenanceStatus{}
	d.sayWaits()
	for _, w := range d.all() {
		has := slices.Contains(w.m.Finalizers, Finalizer)
		switch {
		case w.live() && !has:
			d.out.Adopt = append(d.out.Adopt, w.m.Name)
		case !w.live() && has && len(w.status.Nodes) == 0 && len(w.m.Status.Nodes) == 0:
			d.out.Release = append(d.out.Release, w.m.Name)
			continue
		}
		d.summarize(w)
		if !apiequality.Semantic.DeepEqual(w.status, &w.m.Status) {
			d.out.Statuses[w.m.Name] = w.status
		}
	}
}

// summarize counts the nodes of a maintenance and says how it stands.
func (d *decider) summarize(w *work) {
	s := w.status
	s.ObservedGeneration = w.m.Generation
	var missing []string
	s.Counts, missing = d.count(w)
	reason, message := d.standing(w, missing)
	message = cut(text.Line(message), mostText)
	w.bound()
	complete, stalled := reason == reasonComplete, isStalled(reason)
	set := func(kind string, on bool) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: w.m.Generation}
		if on {
			c.Status = metav1.ConditionTrue
		}
		now := meta.FindStatusCondition(s.Conditions, kind)
		if now == nil || now.Status != c.Status {
			c.LastTransitionTime = metav1.NewTime(d.Now.Truncate(time.Second))
		}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	set(conditionReady, complete)
	set(conditionReconciling, !complete && !stalled && reason != reasonSuspended)
	set(conditionStalled, stalled)
}

func isStalled(reason string) bool {
	return slices.Contains([]string{reasonBlocked, reasonNoNodes, reasonUnusable, reasonNotFound, reasonNoRoom}, reason)
}

// count counts the nodes that are selected, and names those that do not exist.
func (d *decider) count(w *work) (v1alpha1.NodeCounts, []string) {
	counts := v1alpha1.NodeCounts{Done: int32(len(w.status.DoneNodes))} //nolint:gosec // at most as many as there are nodes
	for i := range w.status.Nodes {
		switch e := &w.status.Nodes[i]; {
		case e.Blocked:
			counts.Blocked++
		case e.Step == v1alpha1.StepMarking, e.Step == v1alpha1.StepDraining && d.waits[e.Name] != nil:
			counts.Planned++
		case e.Step == v1alpha1.StepDraining:
			counts.Draining++
		default:
			counts.Drained++
		}
	}
	var missing []string
	for _, name := range w.names {
		switch {
		case w.done(name) || w.entry(name) != nil:
		case d.nodes[name] == nil:
			missing = append(missing, name)
			counts.Blocked++
		case d.looks[name] != nil && d.Drains[name].objected():
			counts.Blocked++
		default:
			counts.Planned++
		}
	}
	return counts, missing
}

// standing says in a word and a sentence how a maintenance stands.
func (d *decider) standing(w *work, missing []string) (reason, message string) {
	counts := w.status.Counts
	open := counts.Planned + counts.Draining + counts.Drained
	kept := open > 0 && counts.Planned+counts.Draining == 0 && !slices.ContainsFunc(w.status.Nodes, func(e v1alpha1.MaintainedNode) bool { return e.Step != w.keptStep() })
	switch {
	case !w.live():
		return reasonDeleting, fmt.Sprintf("%s to be given back", text.Count(len(w.status.Nodes), "node"))
	case w.unusable != nil:
		return reasonUnusable, w.unusable.Error()
	case len(w.names) == 0 && counts.Done == 0:
		return reasonNoNodes, "spec.nodes.selector matches no node"
	case w.m.Spec.Suspend:
		return reasonSuspended, "spec.suspend is set: nothing more is begun"
	case len(missing) > 0 && counts.Blocked == int32(len(missing)): //nolint:gosec // at most as many as are named
		return reasonNotFound, notFoundWords(missing)
	case counts.Blocked > 0:
		return reasonBlocked, d.blockedWords(w)
	case counts.Planned > 0 && w.lacks != nil && !d.advances(w):
		return d.lackingWords(w)
	case kept:
		return reasonComplete, w.keptWords(text.Count(int(counts.Drained), "node"))
	case open == 0:
		return reasonComplete, "all nodes are done"
	}
	message = fmt.Sprintf("%d of %d nodes are done", counts.Done, counts.Done+open)
	if counts.Planned > 0 && w.crowded() {
		message += ", and others are begun once its status has room for more"
	}
	return reasonInProgress, message
}

func notFoundWords(missing []string) string {
	return "there is no node " + text.List(missing, 10)
}

// blockedWords names the first node that is blocked, and what blocks it.
func (d *decider) blockedWords(w *work) string {
	name, blockers := d.firstBlocked(w)
	count := w.status.Counts.Blocked
	switch {
	case name == "":
		return fmt.Sprintf("%d nodes are blocked", count)
	case count > 1:
		name = fmt.Sprintf("%d nodes are blocked, the first is %s", count, name)
	default:
		name = fmt.Sprintf("node %s is blocked", name)
	}
	if len(blockers) == 0 {
		return name
	}
	if pod := blockers[0].Pod; pod != "" {
		name += ", by pod " + pod
	}
	return name + ": " + blockers[0].Message
}

// firstBlocked returns the first node that is blocked, and by what: of those in work, or else of those without an entry.
func (d *decider) firstBlocked(w *work) (string, []v1alpha1.MaintenanceBlocker) {
	for i := range w.status.Nodes {
		if e := &w.status.Nodes[i]; e.Blocked {
			return e.Name, e.Blockers
		}
	}
	for _, name := range w.names {
		run := d.Drains[name]
		switch {
		case w.done(name) || w.entry(name) != nil || d.looks[name] == nil || !run.objected():
		case run.Failure != "":
			return name, []v1alpha1.MaintenanceBlocker{failed(run)}
		default:
			return name, blockersOf(run.Blockers, w.m.Name)
		}
	}
	return "", nil
}

// block sets the blockers of an entry that waiting may clear.
func block(e *v1alpha1.MaintainedNode, blockers ...v1alpha1.MaintenanceBlocker) {
	e.Blocked, e.Blockers = false, blockers
}
