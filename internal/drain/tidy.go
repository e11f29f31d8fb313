package drain

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// tidyUp says what is left to undo once the drain has an outcome: deletion costs,
// surges, and the cordon where that was asked for. Pods that are on their way out
// are not called back: the API knows no such thing.
func (d *decider) tidyUp() {
	d.out.Outcome = d.led.ending
	d.awaitUnseen()
	failed := d.undo(func(who snapshot.Drainer) bool { return who.ID == d.req.Self.ID || d.req.Dead[who.ID] })
	undone := len(d.out.Actions) == 0 && !d.pending // the nodes come last, but for the lease
	if !undone {
		d.keepLease()
	}
	targets := make([]target, 0, len(d.req.Nodes))
	for _, name := range d.req.Nodes {
		t := d.targetNamed(name)
		d.showLeft(&t)
		if undone && t.node != nil && d.own(t.node) {
			failed = d.leaveNode(&t, failed)
		}
		d.out.Nodes = append(d.out.Nodes, t.status)
		targets = append(targets, t)
	}
	failed = d.endLease(failed)
	d.noteOutOfService(targets)
	d.recover()
	d.out.Notes = append(d.out.Notes, failed...)
	d.out.Settled = len(d.out.Actions) == 0 && !d.pending && !d.led.InFlight()
}

// awaitUnseen waits for the effect of writes that are under way, or were, or may have been, carried out and are not seen yet: what is not
// seen cannot be undone, and is not by the next process once a node has the record of an end.
func (d *decider) awaitUnseen() {
	for key, t := range d.led.tries {
		switch key.kind {
		case LowerCost:
			d.awaitMark(t)
		case Cordon, Scale, ScaleMin:
			d.pending = d.comes(t) || d.pending
		case Ask:
			d.awaitRequest(t)
		case Mark, Uncordon, Unmark, Evict, Delete, RestoreCost, Withdraw, RenewLease, DeleteLease:
		}
	}
}

// unseen reports whether a write was, or may have been, carried out and is not seen yet.
func (d *decider) unseen(t *try) bool {
	until := t.done.Add(unseenFor)
	if t.done.IsZero() || !perhapsDone(t.answer.Code) || !d.Now.Before(until) || d.versionOf(t.action) != t.version {
		return false
	}
	d.wake(until)
	return true
}

// comes reports whether a write may be carried out any moment, or be so without being seen.
func (d *decider) comes(t *try) bool { return t.done.IsZero() || d.unseen(t) }

// markComes reports whether a pod's deletion cost may be lowered any moment, or be so without being seen.
func (d *decider) markComes(t *try) bool { return t != nil && d.comes(t) }

// perhapsDone reports whether something of the drain may have been written. A conflict is
// what a second try meets whose first was carried out and got no answer.
func perhapsDone(code answers.Code) bool {
	return code == answers.Accepted || code == answers.Unavailable || code == answers.Conflict
}

// versionOf returns the resource version that the action's target has now, "" if it
// is gone.
func (d *decider) versionOf(a Action) string {
	switch a.Kind {
	case Cordon, Mark, Uncordon, Unmark:
		if n := d.Cluster.Node(a.Node.Name); n != nil && n.UID == a.Node.UID {
			return n.ResourceVersion
		}
	case Scale:
		if w := d.Cluster.Workload(a.Workload.UID); w != nil {
			return w.ResourceVersion
		}
	case ScaleMin:
		if s := d.Cluster.Autoscaler(a.Autoscaler.Key()); s != nil && s.UID == a.Autoscaler.UID {
			return s.ResourceVersion
		}
	case Evict, Delete, LowerCost, RestoreCost, Ask:
		if p := d.Cluster.Pod(a.Pod.UID); p != nil {
			return p.ResourceVersion
		}
	case RenewLease, DeleteLease:
		if lease, _ := d.Cluster.LeaseOf(a.Lease.ID); lease != nil {
			return lease.ResourceVersion
		}
	case Withdraw:
	}
	return ""
}

// undo takes back what the drains that owns accepts have changed on workloads and
// pods. It returns a sentence for each thing that it may not undo.
func (d *decider) undo(owns func(snapshot.Drainer) bool) []string {
	failed := d.undoCosts(owns)
	failed = d.withdraw(owns, failed)
	failed = d.undoScales(owns, failed)
	failed = d.undoMinimums(owns, failed)
	failed = d.dropLeases(owns, failed)
	if d.later {
		failed = append(failed, leftLater)
	}
	return failed
}

// leftLater is said once, however much there is: its names would be others in each decision.
const leftLater = "what was written in the name of a drain meanwhile, by others, is left as it is; " + revert + " undoes it"

// undoable reports whether what the target has, of a drain that has ended, is to be undone; where it is not, that is noted.
func (d *decider) undoable(kind Kind, target types.UID) bool {
	may := d.led.mayUndo(kind, target)
	d.later = d.later || !may
	return may
}

func (d *decider) undoScales(owns func(snapshot.Drainer) bool, failed []string) []string {
	for _, w := range d.Cluster.Surged() {
		if w.Surge == nil || !owns(w.Surge.Drainer) || !d.undoable(Scale, w.UID) || d.costs[w.Namespace] {
			continue
		}
		if d.costsComeBack(w) {
			d.pending = true
			continue
		}
		for _, a := range undoScale(w, d.Cluster.AutoscalerOf(w)) {
			failed = d.undoOr(failed, a, fmt.Sprintf("%s/%s is still scaled to %d (it was %d)", w.Namespace, w.Name, w.Replicas, w.Surge.Was), revert)
		}
	}
	return failed
}

func (d *decider) undoMinimums(owns func(snapshot.Drainer) bool, failed []string) []string {
	for _, a := range d.Cluster.SurgedAutoscalers() {
		if a.Surge == nil || !owns(a.Surge.Drainer) || !d.undoable(ScaleMin, a.UID) || d.costs[a.Namespace] {
			continue
		}
		left := fmt.Sprintf("autoscaler %s/%s still has minReplicas %d (it was %d)", a.Namespace, a.Name, a.Min, a.Surge.Was)
		switch w := d.surgedUnder(a); {
		case w == nil:
			failed = d.undoOr(failed, d.undoMin(a), left, revert)
		case !owns(w.Surge.Drainer):
			failed = append(failed, fmt.Sprintf("%s, which another drain of %s needs for its surge of %s; %s undoes it afterwards", left, text.Name(w.Surge.By), w.Name, revert))
		}
	}
	return failed
}

// undoCosts restores deletion costs before anything in their namespaces is scaled down: a pod that stays
// must not be the first that a scaling down removes.
func (d *decider) undoCosts(owns func(snapshot.Drainer) bool) []string {
	var failed []string
	for _, p := range d.Cluster.MarkedPods() {
		id, _, _ := strings.Cut(p.CostMark, "=")
		if p.Terminating() || !owns(snapshot.Drainer{ID: id}) || !d.undoable(LowerCost, p.UID) {
			continue
		}
		before := len(failed)
		failed = d.undoOr(failed, Action{Kind: RestoreCost, Pod: p, Why: "the pod stays"}, fmt.Sprintf("pod %s/%s still has the lowest deletion cost", p.Namespace, p.Name), revert)
		if len(failed) == before {
			d.costs[p.Namespace] = true
		}
	}
	return failed
}

// mostUndoTries bounds how often undoing something is tried when the server does not
// answer, so that a drain always ends; the record stays for the next usher command.
const mostUndoTries = 6

// revert is what undoes the rest of a drain.
const revert = "usher drain --revert"

func (d *decider) undoOr(failed []string, a Action, left, again string) []string {
	_, t := d.standing(a.Kind, a.Target(), a.version())
	if !t.tired() && d.try(a) {
		d.pending = true
		return failed
	}
	why := t.answer.Message
	if endless, ok := d.led.rewritten(a.Kind, a.Target()); ok {
		why = endless
	}
	return append(failed, fmt.Sprintf("%s: %s; %s tries it again", left, why, again))
}

// tired reports whether undoing was tried mostUndoTries times in a row in vain, or mostConflicts times where the server answers that the
// target has changed: a watch that is seconds behind a rolling Deployment uses up the few tries before it has caught up. A Lease is changed
// by its drain alone.
func (t *try) tired() bool {
	if t == nil || t.done.IsZero() || t.answer.Code == answers.Accepted {
		return false
	}
	if t.answer.Code == answers.Conflict && t.action.Kind != DeleteLease {
		return t.count >= mostConflicts
	}
	return t.count >= mostUndoTries
}

// takeBack undoes something while the drain goes on, and reports whether to wait for that. What is refused for good is not waited
// for, nor what was tried mostUndoTries times, which is tried again for as long as the drain goes on: it holds neither the drain nor a surge,
// and is said at the end.
func (d *decider) takeBack(a Action) bool {
	_, t := d.standing(a.Kind, a.Target(), a.version())
	before := len(d.out.Actions)
	waits := d.try(a) && !t.tired()
	if !waits {
		d.vain += len(d.out.Actions) - before
	}
	d.pending = d.pending || waits
	return waits
}

// leaveNode writes the drain's end on the node, or takes its cordon away. It adds a
// sentence if it may not.
func (d *decider) leaveNode(t *target, failed []string) []string {
	n := t.node
	cordoned := n.UsherCordon() && t.back == nil // what stands once the node was given back is another one's
	a := Action{Kind: Mark, Node: n, Lapsed: d.lapsed(n), Why: "the drain has ended", Note: d.leftOn(t)}
	switch {
	case d.led.ending == Drained || !d.req.UncordonOnFailure:
		if !n.Drain.Working() {
			return failed
		}
		record := *n.Drain
		record.State, record.Beat = string(d.led.ending), d.Now
		a.Record = &record
	case cordoned && !n.KeepsCordon():
		a.Kind = Uncordon
	default:
		a.Kind = Unmark
	}
	left := fmt.Sprintf("node %s keeps the record of this drain", n.Name)
	if cordoned {
		left = fmt.Sprintf("node %s keeps its cordon and the record of this drain", n.Name)
	}
	return d.undoOr(failed, a, left, "usher uncordon "+n.Name)
}

// showLeft says what is left on a node of a drain that has ended, and what held it
// when it ended.
func (d *decider) showLeft(t *target) {
	leaving, staying := d.inOrder(d.podsToLeave(t))
	for i := range leaving {
		d.show(d.leftBy(&leaving[i], t))
		t.status.Left++
	}
	for _, s := range staying {
		d.show(s)
	}
	if t.node == nil && (!t.another || t.status.Left == 0) {
		t.status.State = NodeMissing
		return
	}
	t.status.Blockers = slices.Clone(d.led.verdict[verdictKey{node: t.status.Name}])
	t.status.State = leftIn(d.led.ending)
	if t.status.Left == 0 && len(t.status.Blockers) == 0 {
		t.status.State = NodeDrained
	}
}

// leftBy says what holds a pod that is left when the drain has ended.
func (d *decider) leftBy(q *queued, t *target) PodStatus {
	p := q.pod
	switch {
	case p.Terminating():
		return PodStatus{Pod: p, State: Terminating, Blockers: []Blocker{d.whyStillThere(p, d.Cluster.Node(p.Node))}}
	case t.node == nil && !t.another:
		return PodStatus{Pod: p, State: Waiting, Blockers: []Blocker{orphanedBy(p)}}
	}
	return PodStatus{Pod: p, State: Waiting, Blockers: d.heldBy(p, q.filtered)}
}

// leftIn is the state of a node on which something is left when the drain has ended so.
func leftIn(ending Outcome) NodeState {
	switch ending {
	case Interrupted, TimedOut, DeadlinePassed:
		return NodeState(ending)
	case Running, Drained, Blocked, NoAccess, Left:
	}
	return NodeBlocked
}

// heldBy returns what held the pod in the last decision of the drain; for a pod that
// came later, what would hold it now. On a node of another drain nothing but that does,
// which the node's own blocker says.
func (d *decider) heldBy(p *snapshot.Pod, f filterResult) []Blocker {
	if ofAnotherDrain(d.led.verdict[verdictKey{node: p.Node}]) {
		return nil
	}
	if held := d.led.verdict[verdictKey{pod: p.UID}]; len(held) > 0 {
		return slices.Clone(held) // what shows the last decision still reads it
	}
	ref, found := d.budgetsAllow(p)
	found = append(append(f.objections, d.refusal(p, ref, len(found) > 0)...), found...)
	if len(found) == 0 {
		found = []Blocker{{Reason: DrainEnded, Pod: p.Key(), Node: p.Node, Message: "the drain ended before it was its turn", Remedy: "run the drain again"}}
	}
	return found
}

// markedBy reports whether the drain of this id lowered the pod's deletion cost.
func markedBy(p *snapshot.Pod, id string) bool {
	owner, _, _ := strings.Cut(p.CostMark, "=")
	return owner == id && id != ""
}
