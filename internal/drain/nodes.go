package drain

import (
	"fmt"
	"slices"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// target is one node of the drain.
type target struct {
	node    *snapshot.Node // nil: the cluster has none of this name
	status  NodeStatus
	claimed bool       // cordoned, and this drain's record seen on it
	placed  bool       // its pods may leave now
	another bool       // the node was deleted, and the cluster has another one of this name
	back    *givenBack // nil: the drain has it, or may have it
	deletes bool       // the deadline's last phase deletes pods of it
	queue   []queued
	staying []PodStatus
	alive   int // pods that may still leave, of those looked at so far
}

// admitNodes looks at every target, claims those that are free, and gives places to
// MaxParallel nodes in MaxZones zones: first to those whose pods have begun to leave,
// then in the given order. A node that is being cordoned has its place kept. A node on
// which nothing is left that may still move needs none.
func (d *decider) admitNodes() []target {
	targets := make([]target, 0, len(d.req.Nodes))
	for _, name := range d.req.Nodes {
		t := d.targetNamed(name)
		t.claimed = t.node != nil && d.claim(&t)
		t.queue, t.staying = d.inOrder(d.podsToLeave(&t))
		if !t.another {
			d.lineUp(&t)
		}
		targets = append(targets, t)
	}
	d.awaitBeside()
	for _, begun := range []bool{true, false} {
		for i := range targets {
			t := &targets[i]
			cordoning := t.node != nil && t.back == nil && len(t.status.Blockers) == 0
			if (t.claimed || cordoning) && d.led.begun[t.status.Name] == begun {
				d.place(t)
			}
		}
	}
	return targets
}

// targetNamed looks a target up. A node that came back under the same name is another
// node (law 2): it is not touched.
func (d *decider) targetNamed(name string) target {
	t := target{node: d.Cluster.Node(name), back: d.led.back[name], status: NodeStatus{Name: name, State: NodePending}}
	claimed, ok := d.led.nodes[name]
	if ok && t.node != nil && t.node.UID != claimed {
		t.node, t.another = nil, true
	}
	if n := t.node; t.back == nil && n != nil && d.own(n) && !n.Unschedulable {
		t.back = &givenBack{n.Drain, wasOpened}
	}
	return t
}

// drained reports whether the node was given back after it was drained: what runs there since is no affair of the drain.
func (t *target) drained() bool { return t.back != nil && t.back.said.State == string(NodeDrained) }

// podsToLeave returns the pods on a target. Of a node that came back under the same name, or was given back, only those are
// the drain's that were there before: they are bound to the name, and run on.
func (d *decider) podsToLeave(t *target) []*snapshot.Pod {
	pods := d.Cluster.PodsOn(t.status.Name)
	switch {
	case t.drained():
		return nil
	case !t.another && t.back == nil:
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p *snapshot.Pod) bool {
		return !d.led.residents[p.UID] && (d.led.present[p.UID] == nil || t.back != nil && d.startedSince(p, t.back.said))
	})
}

// drainReplaced says what still runs on a node that came back under the same name as another one. What is ending is waited for.
func (d *decider) drainReplaced(t *target) {
	t.status.State = NodeMissing
	runsOn := func(q queued) bool { return !q.pod.Terminating() && d.asked(q.pod) == nil }
	if slices.ContainsFunc(t.queue, runsOn) {
		d.blockNode(t, Blocker{
			Reason: NodeReplaced, Dead: true,
			Message: "the node was deleted, and another one of its name has the pods; that one is not touched",
			Remedy:  "run the drain again to drain it",
		})
	}
	for i := range t.queue {
		d.enter(&t.queue[i], t)
	}
}

// place gives the node a place among those that drain at once, if it needs one and
// one is free.
func (d *decider) place(t *target) {
	if !d.busy(t) && !d.detaching(t.node.Name) {
		t.placed = true
		return
	}
	zone := t.node.Zone
	t.placed = (d.req.MaxParallel <= 0 || d.active < d.req.MaxParallel) &&
		(d.req.MaxZones <= 0 || d.zones[zone] || len(d.zones) < d.req.MaxZones)
	if t.placed {
		d.active++
		d.zones[zone] = true
	}
}

// detaching reports whether volumes that no pod of the node uses are still attached.
func (d *decider) detaching(node string) bool {
	attached := d.Cluster.AttachmentsOn(node)
	if len(attached) == 0 {
		return false
	}
	inUse := d.volumesOf(d.Cluster.PodsOn(node))
	return slices.ContainsFunc(attached, func(a *snapshot.Attachment) bool { return !inUse[a.Volume] })
}

// busy reports whether the node has a pod which may still leave by itself. What serves the node leaves when nothing of earlier
// waves runs there any more, pods of DaemonSets of a lower priority included.
func (d *decider) busy(t *target) bool {
	runs := func(q queued) bool { return d.runs(q.pod, t.node) }
	for from := 0; from < len(t.queue); {
		wave := firstWave(t.queue[from:])
		if wave[0].wave.daemon && slices.ContainsFunc(t.queue[:from], runs) {
			return false
		}
		if slices.ContainsFunc(wave, func(q queued) bool { return d.mayLeave(&q, t) }) {
			return true
		}
		from += len(wave)
	}
	return false
}

func (d *decider) mayLeave(q *queued, t *target) bool {
	if q.pod.Terminating() {
		return !d.whyStillThere(q.pod, t.node).Dead
	}
	return len(q.filtered.objections) == 0 && !d.permanentlyBlocked(q.pod)
}

// permanentlyBlocked reports whether only another client can make the pod's leaving possible.
func (d *decider) permanentlyBlocked(p *snapshot.Pod) bool {
	if p.Terminating() {
		return false
	}
	if d.loads(p) {
		e := d.Cluster.EvictionOf(p)
		return e != nil && neverSays(e)
	}
	if t := d.lastTry(p); t != nil && (t.answer.Code == answers.Forbidden || t.answer.Code == answers.Rejected) {
		return true
	}
	if d.surgeFailed(d.surgeable(p)) {
		return true
	}
	if d.req.DisableEviction || budgetless(p) {
		return false
	}
	budgets := d.Cluster.BudgetsFor(p)
	switch {
	case len(budgets) == 0, d.limited(p):
		return false
	case len(budgets) > 1:
	case unreadyMayGo(p, budgets[0]) || !budgets[0].Observed || !d.neverAllows(p, budgets[0]):
		return false
	}
	return !d.surgeMoves(p, len(budgets))
}

// claim makes the node unschedulable and writes this drain's record on it. It
// reports whether both were observed.
func (d *decider) claim(t *target) bool {
	n := t.node
	switch {
	case t.drained():
		t.status.State = NodeDrained
		return false
	case t.back != nil:
		d.leaveAlone(t)
		return false
	case n.DrainError != "":
		d.blockNode(t, Blocker{
			Reason: UnreadableRecord, Message: n.DrainError, Dead: true,
			Remedy: fmt.Sprintf("kubectl annotate node %s %s-", n.Name, snapshot.DrainAnnotation),
		})
		return false
	case d.drainedByAnother(n):
		d.blockNode(t, d.anotherDrains(n))
		return false
	case d.own(n) && n.Unschedulable && n.Drain.Working() && d.lapsed(n):
		d.renew(t)
		return false
	case d.own(n) && n.Unschedulable:
		d.beat(n)
		return true
	}
	d.cordon(t)
	return false
}

// leaveAlone gives a node up that was given back before it was drained.
func (d *decider) leaveAlone(t *target) {
	d.blockNode(t, Blocker{
		Reason: NodeNotCordoned, Dead: true,
		Message: t.back.how + " while it was being drained; its pods are left alone",
		Remedy:  "run the drain again if the node is still to be drained",
	})
}

// besideFor is how long the cordons of nodes are awaited whose drains began together with this one. One may fail, or be refused.
const besideFor = 15 * time.Second

// awaitBeside keeps everything where it is until the nodes are cordoned that are drained beside: what leaves earlier may move to one of them,
// and has to move again.
func (d *decider) awaitBeside() {
	until := d.req.Started.Add(besideFor)
	if !d.Now.Before(until) {
		return
	}
	for _, name := range d.req.Beside {
		if n := d.Cluster.Node(name); n != nil && !n.Unschedulable {
			d.cordoning = true
			d.wake(until)
		}
	}
}

// cordonsAwaited is how often a cordon may fail before the other nodes go on without it.
const cordonsAwaited = 4

func (d *decider) cordon(t *target) {
	n := t.node
	record := &snapshot.DrainRecord{
		Drainer: d.self(), Why: d.req.Why, Since: d.Now, State: snapshot.Draining,
		Cordoned: !n.Unschedulable || n.UsherCordon(),
	}
	if n.Unschedulable && record.Cordoned {
		record.CordonTime = n.Drain.CordonedSince()
	}
	if before := d.led.records[n.Name]; before != nil {
		record.Since = before.Since // another drain had it meanwhile: what came back to it then is not evicted again
	}
	d.take(t, Action{Kind: Cordon, Node: n, Record: record, Why: "no new pods are to come"})
}

// renew claims a node anew on which the drain's last sign of life counts no more: the process was suspended, or cut off, so
// that another drain may work on the node, and all that is seen of the cluster may be as old. Nothing else is done before the
// server has compared the node with what is seen, and that was seen.
func (d *decider) renew(t *target) {
	n := t.node
	record := *n.Drain
	record.Drainer = d.self()
	if d.take(t, Action{Kind: Mark, Node: n, Record: &record, Lapsed: true, Why: "sign of life, after a long time without"}) {
		d.blockNode(t, Blocker{
			Reason: EvidenceUnavailable, Since: snapshot.Believed(n.Drain.Beat, d.Now).Add(snapshot.LiveFor),
			Message: "this drain's last sign of life on it is too old, so that another one may have it; it is claimed anew first", Remedy: "wait",
		})
	}
}

// lapsed reports whether another drain may take a node of this drain: this one does not work on it, or its last sign of life
// counts no more.
func (d *decider) lapsed(n *snapshot.Node) bool {
	return !d.req.Forecast && (!n.Drain.Working() || !claimCounts(d.View, n.Drain, d.req.Self))
}

// InTime reports whether an action of this drain may still be sent, by what is seen now and by which nodes were given back. What is
// done to the pods of a node, and what is written on it without comparing it with what was seen, rests on the drain's sign of life
// there: once that counts no more, another drain may have the node. Pods of a node that was opened stay, whatever has cordoned it since.
func InTime(view snapshot.View, self snapshot.Drainer, back map[string]bool, a Action) bool {
	if a.Kind == RenewLease && !renewsInTime(view, a.Lease) {
		return false
	}
	for _, c := range a.restsOn(self) {
		if a.Kind == Mark {
			if !claimStands(view, view.Cluster.Node(c.node), self) {
				return false
			}
		} else if c.of.ID == self.ID && back[c.node] || !c.stands(view) {
			return false
		}
	}
	return true
}

// stands reports whether the node is the drain's, by its sign of life and its cordon.
func (c claim) stands(view snapshot.View) bool {
	n := view.Cluster.Node(c.node)
	return claimStands(view, n, c.of) && cordonStands(n)
}

// cordonStands reports whether the node is cordoned, and was not opened since as far as it can be seen.
func cordonStands(n *snapshot.Node) bool { return n.Unschedulable && !n.CordonedAnew() }

// take sends what makes a node this drain's, and reports whether that may still take effect.
func (d *decider) take(t *target, a Action) bool {
	_, sent := d.standing(a.Kind, a.Node.UID, a.Node.ResourceVersion)
	if d.try(a) {
		d.pending = true
		awaited := sent == nil || sent.count < cordonsAwaited
		d.cordoning, d.renewing = d.cordoning || awaited, d.renewing || awaited && a.Lapsed
		return true
	}
	b := Blocker{Reason: refusalReason[sent.answer.Code], Dead: true, Message: sent.answer.Message, Remedy: "see the server's words"}
	if b.Reason == NoPermission {
		b.Remedy = "ask for the right to patch nodes"
		d.forbidden, d.left = d.forbidden+1, d.left+1
	}
	d.blockNode(t, b)
	return false
}

// own reports whether the record on the node is this drain's.
func (d *decider) own(n *snapshot.Node) bool {
	return n.Drain != nil && n.Drain.ID == d.req.Self.ID
}

// drainedByAnother reports whether another drain works on the node and may still be
// alive.
func (d *decider) drainedByAnother(n *snapshot.Node) bool {
	return n.Drain != nil && !d.own(n) && n.Drain.Working() && d.mayRun(n.Drain.Drainer)
}

// beat renews the sign of life on a node that is worked on, seldom where the drain's Lease gives it: clients that cannot read that go
// by the node. What another process of this drain has written there is written anew: by its process a drain is known to have ended.
func (d *decider) beat(n *snapshot.Node) {
	if d.req.Forecast || !n.Drain.Working() {
		return
	}
	same := n.Drain.Boot == "" || n.Drain.SameProcess(d.req.Self)
	due := d.markDue(n.Drain)
	d.wake(due)
	if same && d.Now.Before(due) {
		return
	}
	record := *n.Drain
	record.Drainer = d.self()
	d.try(Action{Kind: Mark, Node: n, Record: &record, Why: "sign of life"})
}

// markDue returns when the record on a node of this drain is to be written again.
func (d *decider) markDue(r *snapshot.DrainRecord) time.Time {
	beat := snapshot.Believed(r.Beat, d.Now)
	if !leased(d.View, r, d.req.Self) {
		return beat.Add(snapshot.BeatEvery)
	}
	lease, _ := d.Cluster.LeaseOf(r.ID)
	unrenewed := lease.Renewed.Add(2 * snapshot.BeatEvery) // the node says it before others take that for an end
	return earlier(later(beat.Add(snapshot.BeatEvery), unrenewed), beat.Add(snapshot.MarkEvery))
}

// self returns this drain's identity with a fresh sign of life.
func (d *decider) self() snapshot.Drainer {
	who := d.req.Self
	who.Beat, who.Lease = d.Now, d.hasLease()
	return who
}

func (d *decider) blockNode(t *target, b Blocker) {
	b.Node = t.status.Name
	if b.Dead {
		t.status.State = NodeBlocked
	} else {
		d.pending = true
		d.wake(b.Retry)
	}
	t.status.Blockers = append(t.status.Blockers, b)
}
