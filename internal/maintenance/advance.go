package maintenance

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/text"
)

// mostBlockers is how many blockers of a node its entry has.
const mostBlockers = 5

// failingFor is how long a hook may fail, or a Node not be deleted, before the node counts as blocked.
const failingFor = 5 * time.Minute

// advance brings the entries of a maintenance to where their nodes are.
func (d *decider) advance(w *work) {
	kept, keep := w.status.Nodes[:0], d.keep
	if !Drains(w.m) {
		keep = d.keepMarked
	}
	for i := range w.status.Nodes {
		e := w.status.Nodes[i]
		if keep(w, &e) {
			kept = append(kept, e)
		}
	}
	w.status.Nodes = kept
}

// keep advances an entry, and reports whether it stays.
func (d *decider) keep(w *work, e *v1alpha1.MaintainedNode) bool {
	n := d.nodes[e.Name]
	switch {
	case !w.live():
		return d.holdsBack(w, e)
	case !d.same(e): // its Node was deleted, by this maintenance or by another client
		w.finish(e.Name)
		return false
	case !w.selects[e.Name] && w.unusable == nil:
		return false
	case w.m.Spec.Suspend:
		d.suspended(e)
		return true
	}
	for {
		step, back := e.Step, givenBack(e, n)
		if (!back || d.ends(w, e)) && !d.advanceEntry(w, e, n) {
			w.finish(e.Name)
			return false
		}
		if e.Step == step {
			if back {
				w.noteBack(e, n)
			}
			return true
		}
	}
}

// suspended takes what held a drain out of an entry: it ends, or goes on for others. It says why that has failed.
func (d *decider) suspended(e *v1alpha1.MaintainedNode) {
	run := d.Drains[e.Name]
	switch {
	case e.Step != v1alpha1.StepDraining:
	case run != nil && run.Failure != "":
		block(e, failed(run))
		e.Blocked = true
	default:
		block(e)
		warn(e, nil, "")
		e.PodCount = 0
	}
}

// givenBack reports whether a node that was drained is in service again, or was since: its cordon or the record of its drain was taken away. Pods may have
// started there.
func givenBack(e *v1alpha1.MaintainedNode, n *Node) bool {
	return e.Step != v1alpha1.StepDraining && (!n.Unschedulable || n.CordonedAnew() || !Owned(n.Node))
}

// ends reports whether nothing is done to the node of an entry any more, so that it goes on though another client has given the node back: many a tool
// that is waited for uncordons what it has worked on.
func (d *decider) ends(w *work, e *v1alpha1.MaintainedNode) bool {
	when := &w.m.Spec.WhenDrained
	if when.KeepCordoned != nil || when.DeleteNode != nil {
		return false
	}
	made := d.Calls[Call{Maintenance: w.m.UID, Node: e.UID, Step: e.Step}]
	return e.Step == v1alpha1.StepWaiting || e.Step == v1alpha1.StepCallingHook && made != nil && made.Done
}

// noteBack blocks a node that was given back by another client.
func (w *work) noteBack(e *v1alpha1.MaintainedNode, n *Node) {
	b := v1alpha1.MaintenanceBlocker{
		Reason: "NodeNotCordoned", Message: "the node was made schedulable by another client since it was drained",
		Remedy: "give the node back: usher maintain --delete " + w.m.Name + "; and create another one if it is still to be drained",
	}
	if n.Unschedulable && !n.CordonedAnew() {
		b.Message = "the record of its drain was taken off the node since it was drained"
	}
	block(e, b)
	e.Blocked = true
}

// same reports whether an entry's node is there, and is the one that it was.
func (d *decider) same(e *v1alpha1.MaintainedNode) bool {
	n := d.nodes[e.Name]
	return n != nil && n.UID == e.UID
}

// holdsBack reports whether a maintenance that is being deleted has to wait for a node to be given back: none else wants it, and it has
// a record or a drain. It says why that has failed.
func (d *decider) holdsBack(w *work, e *v1alpha1.MaintainedNode) bool {
	e.Blocked, e.Blockers = false, nil
	warn(e, nil, "")
	others := slices.ContainsFunc(d.works, func(o *work) bool { return o != w && o.wants(e.Name) })
	n, run := d.nodes[e.Name], d.Drains[e.Name]
	if others || n == nil || !Owned(n.Node) && run == nil {
		return false
	}
	if run != nil && run.Failure != "" {
		block(e, failed(run))
		e.Blocked = true
	}
	return true
}

// failed is the blocker of a drain that could not be run, or ended.
func failed(run *Drain) v1alpha1.MaintenanceBlocker {
	return v1alpha1.MaintenanceBlocker{Reason: "DrainFailed", Message: run.Failure, Remedy: "see the log of usher-manager; it is tried again every 30 s"}
}

func (w *work) finish(node string) {
	if !w.done(node) {
		w.status.DoneNodes = append(w.status.DoneNodes, node)
	}
}

// advanceEntry takes an entry one step on, if its step is over, and reports whether the maintenance has still to do with its node.
func (d *decider) advanceEntry(w *work, e *v1alpha1.MaintainedNode, n *Node) bool {
	switch e.Step {
	case v1alpha1.StepDraining:
		if d.drained(w, e) {
			return d.follow(w, e, 0)
		}
		d.replacingGone(w, e)
	case v1alpha1.StepCallingHook:
		return !d.called(w, e) || d.follow(w, e, 1)
	case v1alpha1.StepWaiting:
		return !d.waited(w, e, n) || d.follow(w, e, 2)
	case v1alpha1.StepReplacingMembers:
		return !d.replacing(w, e) || d.follow(w, e, 3)
	case v1alpha1.StepDeletingNode:
		d.deleting(w, e)
	case v1alpha1.StepDrained:
		block(e)
	case v1alpha1.StepMarking, v1alpha1.StepMarked: // of maintenances that drain nothing
	}
	return true
}

// follow sets the step that follows so many of those of spec.whenDrained, and reports whether there is one.
func (d *decider) follow(w *work, e *v1alpha1.MaintainedNode, from int) bool {
	when := &w.m.Spec.WhenDrained
	steps := []struct {
		wanted bool
		step   v1alpha1.MaintenanceStep
	}{
		{when.Hook != nil, v1alpha1.StepCallingHook},
		{when.Wait != nil, v1alpha1.StepWaiting},
		{w.replaces(), v1alpha1.StepReplacingMembers},
		{when.DeleteNode != nil, v1alpha1.StepDeletingNode},
		{when.KeepCordoned != nil, w.keptStep()},
	}
	for _, s := range steps[from:] {
		if s.wanted {
			e.Step, e.StepTime, e.PodCount = s.step, metav1.NewTime(d.Now), 0
			block(e)
			return true
		}
	}
	return false
}

// drained reports whether the drain of a node has ended with nothing left, and enters what it says before that.
func (d *decider) drained(w *work, e *v1alpha1.MaintainedNode) bool {
	run := d.Drains[e.Name]
	switch {
	case run == nil:
		e.Blocked, e.Blockers = false, nil
	case run.Stopped && run.Failure == "":
		e.Blocked, e.Blockers = false, nil
		warn(e, nil, w.m.Name)
	case run.Failure != "":
		e.Blocked, e.Blockers = true, []v1alpha1.MaintenanceBlocker{failed(run)}
	case run.Outcome == drain.Drained:
		warn(e, nil, w.m.Name)
		return true
	default:
		warn(e, run.Warnings, w.m.Name)
		e.PodCount, e.Blockers = int32(run.PodCount), blockersOf(run.Blockers, w.m.Name) //nolint:gosec // a node has no two billion pods
		e.Blocked = run.over() || !run.Begun && len(run.Blockers) > 0 || len(run.Blockers) > 0 && allDead(run)
		if run.over() {
			e.Blockers = append([]v1alpha1.MaintenanceBlocker{endedWith(run.Outcome, w.m.Name)}, e.Blockers...)
			e.Blockers = e.Blockers[:min(len(e.Blockers), mostBlockers)]
		}
	}
	return false
}

// allDead reports whether only what cannot clear by itself keeps the pods of a node.
func allDead(run *Drain) bool {
	return !slices.ContainsFunc(run.Blockers, func(b drain.Blocker) bool { return !b.Dead })
}

// endedWith says why a drain that has ended without success is not tried again.
func endedWith(outcome drain.Outcome, name string) v1alpha1.MaintenanceBlocker {
	back := "give the node back: usher maintain --delete " + name
	b := v1alpha1.MaintenanceBlocker{Reason: "DrainEnded", Message: fmt.Sprintf("its drain has ended (%s)", outcome), Remedy: back}
	if outcome == drain.DeadlinePassed {
		b.Reason, b.Message = "DeadlinePassed", "spec.deadlineTime has passed, and pods are left on the node"
		b.Remedy += ", and create another one with a later deadline"
	}
	return b
}

// blockersOf returns the first blockers, those first that cannot clear by themselves.
func blockersOf(all []drain.Blocker, maintenance string) []v1alpha1.MaintenanceBlocker {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b drain.Blocker) int { return cmp.Compare(alive(a), alive(b)) })
	var found []v1alpha1.MaintenanceBlocker
	for i := range all[:min(len(all), mostBlockers)] {
		b := v1alpha1.MaintenanceBlocker{Reason: string(all[i].Reason), Message: all[i].Message, Remedy: remedyOf(&all[i], maintenance)}
		if all[i].Pod.Name != "" {
			b.Pod = all[i].Pod.String()
		}
		found = append(found, b)
	}
	return found
}

func alive(b drain.Blocker) int {
	if b.Dead {
		return 0
	}
	return 1
}

// called reports whether the hook has taken the node, and has it called otherwise.
func (d *decider) called(w *work, e *v1alpha1.MaintainedNode) bool {
	hook, call := w.m.Spec.WhenDrained.Hook, Call{Maintenance: w.m.UID, Node: e.UID, Step: e.Step}
	if hook == nil {
		return true
	}
	made := d.Calls[call]
	if made != nil && made.Done {
		return true
	}
	if stored := w.stored(e.Name); stored != nil && stored.Step == e.Step {
		d.out.Hooks = append(d.out.Hooks, Hook{Call: call, URL: hook.URL, Timeout: cmp.Or(hook.Timeout.Duration, 10*time.Second), Body: HookBody{
			Maintenance: w.m.Name, Requester: w.m.Spec.Requester, Reason: w.m.Spec.Reason,
			Node: e.Name, NodeUID: string(e.UID), ProviderID: d.nodes[e.Name].ProviderID,
		}})
	}
	d.failing(e, made, "HookFailed", "the hook of spec.whenDrained does not take the node: ", "see to what listens at its URL; it is called again until it answers with a 2xx status")
	return false
}

// replacing reports whether there is a ReplacementRequest for every member whose data is on a node, and has them made otherwise. Its Node is there
// until then: by its name it is found which members these are.
func (d *decider) replacing(w *work, e *v1alpha1.MaintainedNode) bool {
	call := Call{Maintenance: w.m.UID, Node: e.UID, Step: e.Step}
	if !w.replaces() {
		return true
	}
	made := d.Calls[call]
	if made != nil && made.Done {
		return true
	}
	if stored := w.stored(e.Name); stored != nil && stored.Step == e.Step {
		d.out.Replacements = append(d.out.Replacements, Replacement{Call: call, Node: e.Name, Requester: w.m.Spec.Requester})
	}
	d.failing(e, made, "MembersNotReplaced", "the Node is not deleted, since no successors come for members whose data is on it: ", remedyOfRequests)
	return false
}

const remedyOfRequests = "where rights are missing: usher install --replacement; or leave such members Pending, by members: Keep in spec.whenDrained.deleteNode. It is tried again"

// replacingGone has requests made for the members that have left a node with data on it, once nothing holds its drain but what systems decide. One that
// lets the next member go only when the last is back waits for that one's successor: on another node the last does not come back.
func (d *decider) replacingGone(w *work, e *v1alpha1.MaintainedNode) {
	run := d.Drains[e.Name]
	if !w.replaces() || !run.heldBySystems() {
		return
	}
	call := Call{Maintenance: w.m.UID, Node: e.UID, Step: e.Step, PodCount: run.PodCount}
	made := d.Calls[call]
	if made != nil && made.Done {
		return
	}
	if stored := w.stored(e.Name); stored != nil && stored.Step == e.Step {
		d.out.Replacements = append(d.out.Replacements, Replacement{Call: call, Node: e.Name, Requester: w.m.Spec.Requester, Gone: true})
	}
	if made != nil && made.Failure != "" {
		e.Blockers = append([]v1alpha1.MaintenanceBlocker{{
			Reason: "MembersNotReplaced", Message: "no successors come for members that have left the node: " + made.Failure, Remedy: remedyOfRequests,
		}}, e.Blockers[:min(len(e.Blockers), mostBlockers-1)]...)
	}
}

// replaces reports whether members are replaced whose data is on nodes that the maintenance deletes.
func (w *work) replaces() bool {
	when := w.m.Spec.WhenDrained.DeleteNode
	return when != nil && when.Members == v1alpha1.MembersReplace
}

// deleting has the Node of an entry deleted. That it is gone ends the entry. Another maintenance that is to have members replaced before goes first:
// afterwards it is not known which they were.
func (d *decider) deleting(w *work, e *v1alpha1.MaintainedNode) {
	if o := d.replacesFirst(w, e.Name); o != nil {
		block(e, v1alpha1.MaintenanceBlocker{
			Reason:  "MembersNotReplaced",
			Message: fmt.Sprintf("the Node is not deleted before NodeMaintenance %s, which has the node as well, has requested successors for members whose data is on it", o.m.Name),
			Remedy:  "see what that waits for: kubectl describe nodemaintenance " + o.m.Name,
		})
		e.Blocked = o.holdsBy(e.Name) != ""
		return
	}
	call := Call{Maintenance: w.m.UID, Node: e.UID, Step: e.Step}
	if stored := w.stored(e.Name); stored != nil && stored.Step == e.Step {
		d.out.Deletions = append(d.out.Deletions, Deletion{call, e.Name, d.nodes[e.Name].ResourceVersion})
	}
	d.failing(e, d.Calls[call], "NodeNotDeleted", "the Node cannot be deleted: ", "see the server's words; it is tried again")
}

// replacesFirst returns a maintenance but w that has a node in work, and has members replaced before the Node is deleted; nil where there is none.
func (d *decider) replacesFirst(w *work, node string) *work {
	for _, o := range d.works {
		if e := o.entry(node); o != w && o.live() && o.replaces() && e != nil && e.Step != v1alpha1.StepDeletingNode {
			return o
		}
	}
	return nil
}

// keepBegun takes back the deletion of Nodes that a maintenance has in work only now which has members replaced before.
func (d *decider) keepBegun() {
	d.out.Deletions = slices.DeleteFunc(d.out.Deletions, func(del Deletion) bool { return d.replacesFirst(nil, del.Node) != nil })
}

// failing enters that something is tried without success, which blocks the node once it has gone on for long.
func (d *decider) failing(e *v1alpha1.MaintainedNode, made *Attempt, reason, what, remedy string) {
	if made == nil || made.Failure == "" {
		block(e)
		return
	}
	block(e, v1alpha1.MaintenanceBlocker{Reason: reason, Message: what + made.Failure, Remedy: remedy})
	until := made.Since.Add(failingFor)
	e.Blocked = !until.After(d.Now)
	d.wake(until)
}

// waited reports whether what is waited for has happened.
func (d *decider) waited(w *work, e *v1alpha1.MaintainedNode, n *Node) bool {
	wait := w.m.Spec.WhenDrained.Wait
	if wait == nil || happened(wait, e, n) {
		return true
	}
	until := e.StepTime.Add(cmp.Or(wait.Timeout.Duration, time.Hour))
	d.wake(until)
	what := waitWords(wait, n)
	if until.After(d.Now) {
		block(e, v1alpha1.MaintenanceBlocker{Reason: "Waiting", Message: what, Remedy: "wait"})
		return false
	}
	block(e, v1alpha1.MaintenanceBlocker{
		Reason: "WaitTimedOut", Message: fmt.Sprintf("%s, since more than %s", what, cmp.Or(wait.Timeout.Duration, time.Hour)),
		Remedy: "see to the node: it is waited for all the same; delete this object to give the node back as it is",
	})
	e.Blocked = true
	return false
}

// idOf is what an entry has of a boot id, or of a kubelet's version.
func idOf(said string) string { return cut(text.Line(said), mostID) }

func happened(wait *v1alpha1.MaintenanceWait, e *v1alpha1.MaintainedNode, n *Node) bool {
	switch wait.For {
	case v1alpha1.WaitBootIDChanged:
		return n.Ready && n.BootID != "" && idOf(n.BootID) != idOf(e.BootID)
	case v1alpha1.WaitKubeletVersionChanged:
		return n.Ready && n.KubeletVersion != "" && idOf(n.KubeletVersion) != idOf(e.KubeletVersion)
	case v1alpha1.WaitCondition:
		c := n.condition(corev1.NodeConditionType(wait.Condition.Type))
		return c != nil && string(c.Status) == string(wait.Condition.Status)
	}
	return false
}

// waitWords says what is waited for.
func waitWords(wait *v1alpha1.MaintenanceWait, n *Node) string {
	ready := ""
	if !n.Ready && wait.For != v1alpha1.WaitCondition {
		ready = "; it is not Ready now"
	}
	switch wait.For {
	case v1alpha1.WaitBootIDChanged:
		return "it is waited for the node to be booted anew" + ready
	case v1alpha1.WaitKubeletVersionChanged:
		return fmt.Sprintf("it is waited for another kubelet than version %s%s", n.KubeletVersion, ready)
	case v1alpha1.WaitCondition:
		return fmt.Sprintf("it is waited for condition %s to be %s", wait.Condition.Type, wait.Condition.Status)
	}
	return "it is waited for"
}
