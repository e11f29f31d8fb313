package drain

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// A record of a surge, a deletion cost and a request are on objects of a namespace's users. A client that writes them again
// and again, or changes the object all the time, keeps no drain from ending: undoing ends after mostUndone times that were accepted, and
// after mostConflicts in a row.
const (
	mostUndone    = 3
	mostConflicts = 30
)

// undoes reports whether the action takes back what a drain has changed on a workload, an autoscaler or a pod.
func (a Action) undoes() bool {
	switch a.Kind {
	case RestoreCost, DeleteLease:
		return true
	case Scale, ScaleMin:
		return a.Surge == nil || a.ofMinimum()
	case Cordon, Mark, Uncordon, Unmark, Evict, Delete, LowerCost, Ask, Withdraw, RenewLease:
	}
	return false
}

// ofMinimum reports whether the action writes the record with which the replicas of a raised minimum are taken back (undoMin).
func (a Action) ofMinimum() bool { return a.Kind == Scale && a.Autoscaler != nil }

// countUndone counts undoings in a row: what this drain changes anew is its own to undo again. Another drain's surge is not undone again for
// that, since the namespace's users could write its record over this drain's each time. A deletion cost is lowered mostUndone times at most.
func (l *Ledger) countUndone(a Action) {
	switch {
	case a.ofMinimum():
		l.undone[tryKey{ScaleMin, a.Autoscaler.UID}]++
	case a.undoes():
		l.undone[tryKey{a.Kind, a.Target()}]++
		if a.Kind == RestoreCost { // lowering it again is not against another client
			l.resetOthers(tryKey{LowerCost, a.Target()})
		}
		if a.Kind == Scale && l.self.ID != "" && a.Workload.Surge != nil && a.Workload.Surge.ID != l.self.ID {
			l.foreign[a.Workload.UID]++
		}
	case a.Kind == LowerCost:
		l.undone[tryKey{LowerCost, a.Target()}]++
		l.resetOthers(tryKey{RestoreCost, a.Target()})
		delete(l.undone, tryKey{RestoreCost, a.Target()})
	case a.Kind == Scale || a.Kind == ScaleMin:
		delete(l.undone, tryKey{a.Kind, a.Target()})
	}
}

// resetOthers resets how often other drains of the process have done something in a row: it was this one that did the contrary.
func (l *Ledger) resetOthers(key tryKey) {
	for _, other := range l.sharing() {
		if other != l {
			delete(other.undone, key)
		}
	}
}

// rewritten reports whether undoing the target goes on without end, and why.
func (l *Ledger) rewritten(kind Kind, target types.UID) (why string, endless bool) {
	key := tryKey{kind, target}
	if l.undone[key] >= mostUndone || kind == Scale && l.foreign[target] >= mostUndone {
		return "it was undone, and written again each time", true
	}
	if t := l.tries[key]; t != nil && t.answer.Code == answers.Conflict && t.count >= mostConflicts {
		return "it is changed all the time: " + t.answer.Message, true
	}
	return "", false
}

// endless reports whether the action undoes what is written again each time.
func (d *decider) endless(a Action) bool {
	if !a.undoes() {
		return false
	}
	_, endless := d.led.rewritten(a.Kind, a.Target())
	return endless
}

// removal is what was to leave by the last scaling down of a workload, how many of it that was to remove, and how many scalings down were
// accepted in a row that have not.
type removal struct {
	pods  []*snapshot.Pod
	most  int
	count int
}

// countRemovals counts the scalings down that have taken other pods away than those that leave. Some of these may have gone otherwise: their
// owner may delete one each time.
func (l *Ledger) countRemovals(a Action) {
	if len(a.removes) == 0 {
		return
	}
	last, went := l.removals[a.Workload.UID], 0
	for _, p := range last.pods {
		if !holds(a.removes, p.UID) {
			went++
		}
	}
	if went >= last.most {
		last.count = 0
	}
	l.removals[a.Workload.UID] = removal{pods: a.removes, most: int(a.Workload.Replicas - a.Replicas), count: last.count + 1}
}

func holds(pods []*snapshot.Pod, uid types.UID) bool {
	return slices.ContainsFunc(pods, func(p *snapshot.Pod) bool { return p.UID == uid })
}

// staysBehind reports whether scaling down has not taken the pod away often enough to say that it will not.
func (d *decider) staysBehind(p *snapshot.Pod) bool {
	w := d.workloadOf(p)
	if w == nil {
		return false
	}
	last := d.led.removals[w.UID]
	return last.count >= mostUndone && holds(last.pods, p.UID)
}

// costImmutable reports whether a scaling down does not remove the pod first: lowering its deletion cost was refused, the mark is taken off
// each time, or other pods went mostUndone times, since theirs is the lowest that there is, too.
func (d *decider) costImmutable(p *snapshot.Pod) bool {
	return d.led.costImmutable[p.UID] || d.staysBehind(p) || d.stripsMark(p)
}

func (d *decider) stripsMark(p *snapshot.Pod) bool {
	if markedBy(p, d.req.Self.ID) || d.led.undone[tryKey{LowerCost, p.UID}] < mostUndone {
		return false
	}
	at, _ := d.standing(LowerCost, p.UID, p.ResourceVersion)
	return at == free
}

// observeFound notes which records, marks and requests are there at the first look, and which of the drain's own id soon after: what an
// earlier process of it has written last may be seen late. What comes later and was not written by this process is not undone: a namespace's
// users could go on creating it, each time with another UID.
func (l *Ledger) observeFound(c *snapshot.Cluster, now time.Time) {
	first := l.found == nil
	if first {
		l.found, l.foundUntil = map[types.UID]bool{}, now.Add(unseenFor)
	}
	if !now.Before(l.foundUntil) {
		return
	}
	for target, id := range writtenBy(c) {
		if first || id == l.self.ID {
			l.found[target] = true
		}
	}
}

// writtenBy returns what has a record, a mark or a request of a drain, with that drain's id: "" where only a part of a record is left, or the
// requester is no drain.
func writtenBy(c *snapshot.Cluster) map[types.UID]string {
	all := map[types.UID]string{}
	surge := func(target types.UID, r *snapshot.SurgeRecord) {
		if all[target] = ""; r != nil {
			all[target] = r.ID
		}
	}
	for _, w := range c.Surged() {
		surge(w.UID, w.Surge)
	}
	for _, a := range c.SurgedAutoscalers() {
		surge(a.UID, a.Surge)
	}
	for _, p := range c.MarkedPods() {
		all[p.UID], _, _ = strings.Cut(p.CostMark, "=")
	}
	for _, lease := range c.Leases() {
		all[leaseTarget(lease.ID)] = lease.ID
	}
	for _, r := range c.Requests() {
		drainer, _ := r.Drainer()
		all[r.UID] = drainer.ID
	}
	return all
}

// mayUndo reports whether what a target has is to be undone: it was there at the first look, or this process has sent an action
// of this kind for it.
func (l *Ledger) mayUndo(kind Kind, target types.UID) bool {
	return l.found == nil || l.found[target] || l.tries[tryKey{kind, target}] != nil
}

// observeRecords notes since when workloads and autoscalers have a record of a surge, and forgets those that have none any more: the
// next is another one.
func (l *Ledger) observeRecords(view snapshot.View) {
	seen := map[types.UID]bool{}
	for _, w := range view.Cluster.Surged() {
		seen[w.UID] = w.Surge != nil
	}
	for _, a := range view.Cluster.SurgedAutoscalers() {
		seen[a.UID] = a.Surge != nil
	}
	maps.DeleteFunc(l.recorded, func(uid types.UID, _ time.Time) bool { return !seen[uid] })
	for uid, has := range seen {
		if has && l.recorded[uid].IsZero() {
			l.recorded[uid] = view.Now
		}
	}
}

// foreignAlive reports whether the other drain that wrote the record of the target may still be running. The record's own sign of life,
// which the namespace's users can write, counts for LiveFor from when it was first seen: then only one on a node does.
func (d *decider) foreignAlive(target types.UID, r *snapshot.SurgeRecord) bool {
	who := r.Drainer
	if first := d.led.recorded[target]; !first.IsZero() && !d.Now.Before(first.Add(snapshot.LiveFor)) {
		who.Beat = first
	}
	return d.surgeAlive(&snapshot.SurgeRecord{Drainer: who})
}

// lastStep returns when this drain's surge of a Deployment took its last step. The record's word for it, which the namespace's
// users can write, counts if it is not later than what this process knows.
func (d *decider) lastStep(w *snapshot.Workload) time.Time {
	step, known := snapshot.Believed(w.Surge.Step, d.Now), d.led.recorded[w.UID]
	if t := d.led.tries[tryKey{Scale, w.UID}]; t != nil {
		known = later(known, later(t.sent, t.done))
	}
	if known.IsZero() || step.Before(known) {
		return step
	}
	return known
}
