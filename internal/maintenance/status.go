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
)

// conclude returns the statuses that are to change, and whose finalizers.
func (d *decider) conclude() {
	d.out.Statuses = map[string]*v1alpha1.NodeMaintenanceStatus{}
	for _, w := range d.works {
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

// mostText is how many bytes of a blocker's message, of its remedy and of a condition's message a status has: some of their words are
// tenants', and what does not fit into an object is refused as a whole.
const mostText = 768

// mostTexts is how many bytes of blockers a status has in all: of nodes beyond that it has the first one, in brief.
const mostTexts, briefly = 256 << 10, 96

// bound cuts the texts of entries.
func bound(entries []v1alpha1.MaintainedNode) {
	size := 0
	for i := range entries {
		for j := range entries[i].Blockers {
			b := &entries[i].Blockers[j]
			b.Message, b.Remedy = text.Cut(text.Line(b.Message), mostText), text.Cut(text.Line(b.Remedy), mostText)
			size += len(b.Reason) + len(b.Pod) + len(b.Message) + len(b.Remedy)
		}
		if all := entries[i].Blockers; size > mostTexts && len(all) > 0 {
			entries[i].Blockers = []v1alpha1.MaintenanceBlocker{{Reason: all[0].Reason, Pod: all[0].Pod, Message: text.Cut(text.Line(all[0].Message), briefly)}}
		}
	}
}

// summarize counts the nodes of a maintenance and says how it stands.
func (d *decider) summarize(w *work) {
	s := w.status
	s.ObservedGeneration = w.m.Generation
	var missing []string
	s.Counts, missing = d.count(w)
	bound(s.Nodes)
	reason, message := d.standing(w, missing)
	message = text.Cut(text.Line(message), mostText)
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
	return slices.Contains([]string{reasonBlocked, reasonNoNodes, reasonUnusable, reasonNotFound}, reason)
}

// count counts the nodes that are selected, and names those that do not exist.
func (d *decider) count(w *work) (v1alpha1.NodeCounts, []string) {
	counts := v1alpha1.NodeCounts{Done: int32(len(w.status.DoneNodes))} //nolint:gosec // at most as many as there are nodes
	for i := range w.status.Nodes {
		switch e := &w.status.Nodes[i]; {
		case e.Blocked:
			counts.Blocked++
		case e.Step == v1alpha1.StepDraining && d.waits[e.Name] != nil:
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
		case d.looks[name] != nil && d.Drains[name] != nil && len(d.Drains[name].Blockers) > 0:
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
	kept := open > 0 && counts.Planned+counts.Draining == 0 && !slices.ContainsFunc(w.status.Nodes, func(e v1alpha1.MaintainedNode) bool { return e.Step != v1alpha1.StepDrained })
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
		return reasonBlocked, blockedWords(w.status.Nodes, counts.Blocked)
	case kept:
		return reasonComplete, fmt.Sprintf("%s drained and kept cordoned until this object is deleted", text.Count(int(counts.Drained), "node"))
	case open == 0:
		return reasonComplete, "all nodes are done"
	}
	return reasonInProgress, fmt.Sprintf("%d of %d nodes are done", counts.Done, counts.Done+open)
}

func notFoundWords(missing []string) string {
	return "there is no node " + text.List(missing, 10)
}

// blockedWords names the first node that is blocked, and what blocks it.
func blockedWords(nodes []v1alpha1.MaintainedNode, count int32) string {
	for i := range nodes {
		e := &nodes[i]
		if !e.Blocked {
			continue
		}
		words := fmt.Sprintf("node %s is blocked", e.Name)
		if count > 1 {
			words = fmt.Sprintf("%d nodes are blocked, the first is %s", count, e.Name)
		}
		if len(e.Blockers) == 0 {
			return words
		}
		b := e.Blockers[0]
		if b.Pod != "" {
			words += ", by pod " + b.Pod
		}
		return words + ": " + b.Message
	}
	return fmt.Sprintf("%d nodes are blocked", count)
}

// block sets the blockers of an entry that waiting may clear.
func block(e *v1alpha1.MaintainedNode, blockers ...v1alpha1.MaintenanceBlocker) {
	e.Blocked, e.Blockers = false, blockers
}
