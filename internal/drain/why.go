package drain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// Why returns everything that keeps one pod from being evicted now, and everything
// that a drain of its node would object to; nothing if it may go.
func Why(view snapshot.View, p *snapshot.Pod) []Blocker {
	req := Request{Nodes: []string{p.Node}, DaemonSets: DaemonSetsObject, Surge: SurgeAuto}
	d := newDecider(view, req, NewLedger(), true)
	f := d.fateOf(p)
	found := f.objections
	for i := range found {
		if strings.HasPrefix(found[i].Remedy, "--") { // a flag of the drain
			found[i].Remedy = fmt.Sprintf("usher drain %s %s", p.Node, found[i].Remedy)
		}
	}
	if f.stays != "" {
		found = append(found, Blocker{
			Reason: RejectedByServer, Pod: p.Key(), Node: p.Node, Dead: true,
			Message: f.stays, Remedy: "remove its file from the node's manifest folder",
		})
	}
	if p.Terminating() {
		return append(found, d.whyStillThere(p, view.Cluster.Node(p.Node)))
	}
	_, blockers := d.budgetsAllow(p)
	for i := range blockers {
		d.offerSurge(p, &blockers[i])
	}
	return append(found, blockers...)
}

// offerSurge says where usher drain would get past a dead budget by a surge.
func (d *decider) offerSurge(p *snapshot.Pod, b *Blocker) {
	if b.Reason != BudgetNeverAllows {
		return
	}
	w := d.surgeable(p)
	if w == nil {
		return
	}
	if obstacle := d.surgeObstacle(w, p); obstacle != "" {
		b.Message += "; a surge is not possible: " + obstacle
		return
	}
	if why := d.nowhere(p); why != "" {
		b.Message += "; a surge would wait: " + why
		return
	}
	b.Remedy = fmt.Sprintf("usher drain %s starts a replacement first (--surge=auto); or %s", p.Node, b.Remedy)
}

// Leftovers returns the next steps that undo what killed drains have left on
// workloads and pods; nothing when everything is undone. Drains that may still be
// alive are left alone.
func Leftovers(view snapshot.View, dead map[string]bool, led *Ledger) Decision {
	d := newDecider(view, Request{Dead: dead}, led, true)
	d.out.Notes = append(d.undo(d.ended), d.unreadable()...)
	d.out.Settled = len(d.out.Actions) == 0 && !d.pending && !led.InFlight()
	return d.out
}

// mostUnreadable is how many records of a namespace that cannot be read are named: its users write them.
const mostUnreadable = 3

// unreadable says whose record of a surge cannot be read: which drain has written it, and what was before, is not known.
func (d *decider) unreadable() []string {
	var notes []string
	found := map[string]int{}
	add := func(kind, namespace, name, problem string) {
		if found[namespace]++; found[namespace] <= mostUnreadable {
			notes = append(notes, unreadableNote(kind, namespace, name, problem))
		}
	}
	for _, w := range d.Cluster.Surged() {
		if w.SurgeError != "" {
			add(w.Kind, w.Namespace, w.Name, w.SurgeError)
		}
	}
	for _, a := range d.Cluster.SurgedAutoscalers() {
		if a.SurgeError != "" {
			add("HorizontalPodAutoscaler", a.Namespace, a.Name, a.SurgeError)
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(found)) {
		if more := found[namespace] - mostUnreadable; more > 0 {
			notes = append(notes, fmt.Sprintf("%s of namespace %s besides: kubectl get deployments,hpa -n %[2]s -l %[3]s", text.Count(more, "record"), namespace, snapshot.SurgeLabel))
		}
	}
	return notes
}

func unreadableNote(kind, namespace, name, problem string) string {
	return fmt.Sprintf("%s %s/%s may still be scaled by a surge, of which its annotation %s says nothing: %s; once its scale is right, kubectl label -n %s %s/%s %s- ends that",
		kind, namespace, name, snapshot.SurgeAnnotation, problem, namespace, strings.ToLower(kind), name, snapshot.SurgeLabel)
}

// ended reports whether the drain of this identity is known to have ended: it is
// dead, or no node carries a fresh sign of life of it. Where not all nodes of drains were read, one of
// those must carry its record.
func (d *decider) ended(who snapshot.Drainer) bool {
	if !d.Cluster.NodesRead(snapshot.DrainLabel) && !d.req.Dead[who.ID] &&
		!d.Cluster.AnyNode(func(n *snapshot.Node) bool { return n.Drain != nil && n.Drain.ID == who.ID && n.Drain.Working() }) {
		return false
	}
	return !d.surgeAlive(&snapshot.SurgeRecord{Drainer: who})
}

// Release says how to give a node back: the action that removes Usher's cordon or
// record, or why there is none.
func Release(view snapshot.View, n *snapshot.Node, dead map[string]bool) (Action, string) {
	d := newDecider(view, Request{Dead: dead}, NewLedger(), true)
	switch {
	case n.DrainError != "":
		return Action{}, n.DrainError
	case n.Drain == nil && !n.Unschedulable:
		return Action{}, "it is schedulable"
	case n.Drain == nil && n.KeepsCordon():
		return Action{}, "a NodeMaintenance keeps it cordoned; usher maintain --delete NAME ends that: kubectl get nodemaintenances names it"
	case n.Drain == nil:
		return Action{}, fmt.Sprintf("it was cordoned by another client, not by usher; kubectl uncordon %s removes that", n.Name)
	case d.drainedByAnother(n):
		return Action{}, fmt.Sprintf("%s is draining it since %s; stop that drain first", n.Drain.By, n.Drain.Since.In(d.Now.Location()).Format("15:04:05"))
	case !n.Unschedulable:
		return Action{Kind: Unmark, Node: n, Why: "it is schedulable already"}, ""
	case !n.Drain.Cordoned:
		return Action{Kind: Unmark, Node: n, Why: "the cordon was there before the drain and stays"}, ""
	case n.KeepsCordon():
		return Action{Kind: Unmark, Node: n, Why: "a NodeMaintenance keeps it cordoned"}, ""
	case !n.UsherCordon():
		return Action{Kind: Unmark, Node: n, Why: fmt.Sprintf("%s has cordoned it since, and that stays", n.CordonedBy)}, ""
	}
	return Action{Kind: Uncordon, Node: n, Why: fmt.Sprintf("cordoned by usher for %s", n.Drain.By)}, ""
}
