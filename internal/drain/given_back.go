package drain

import "usher.sh/usher/internal/snapshot"

// givenBack is a target whose cordon, or this drain's record on it, was taken away after both were seen. It stays so for as long
// as the drain goes on, whatever is written on the node later: pods were started there that are no affair of the drain.
type givenBack struct {
	said *snapshot.DrainRecord // this drain's record, as last seen
	how  string                // the beginning of a sentence
}

// How a node is given back.
const (
	wasOpened   = "the node was made schedulable"
	wasReleased = "this drain's record was taken off the node"
	wasTaken    = "the node was made schedulable, and cordoned anew by another drain,"
	wasCordoned = "the node was made schedulable, and cordoned anew by another client,"
)

// observeBack notes that a target is given back, though the opening itself may not have been seen. Whose the cordon is shows that too,
// and so does what another drain has written on the node meanwhile: it keeps the time of a cordon of Usher's that it finds, and says
// whether it has found one.
func (l *Ledger) observeBack(n *snapshot.Node) {
	said, how := l.records[n.Name], ""
	switch r := n.Drain; {
	case r == nil && n.DrainError == "":
		how = wasReleased
	case !n.Unschedulable:
		how = wasOpened
	case n.CordonedAnew(), r != nil && r.ID != said.ID && said.Cordoned && !r.Cordoned:
		how = wasCordoned
	case r != nil && r.ID != said.ID && r.Cordoned && (!said.Cordoned || !r.CordonedSince().Equal(said.CordonedSince())):
		how = wasTaken
	default:
		return
	}
	l.back[n.Name] = &givenBack{said, how}
}

// GivenBack returns the names of the targets that were given back. It is a copy, for goroutines that send what was decided before.
func (l *Ledger) GivenBack() map[string]bool {
	names := make(map[string]bool, len(l.back))
	for name := range l.back {
		names[name] = true
	}
	return names
}

// letStay takes back what was asked of pods that stay: those of nodes that were given back, and of nodes that are other ones now.
// Until then what looks after a governed pod may still evict it, and a scaling down removes a marked pod first.
func (d *decider) letStay(nodes []target) {
	stays := map[string]bool{}
	for i := range nodes {
		if t := &nodes[i]; t.back != nil || t.another {
			stays[t.status.Name] = true
		}
	}
	if len(stays) == 0 {
		return
	}
	d.withdrawFrom(stays)
	for _, p := range d.Cluster.MarkedPods() {
		if stays[p.Node] {
			d.restoreCost(p, d.req.Self.ID)
		}
	}
	for key, t := range d.led.tries {
		if key.kind == LowerCost && stays[t.action.Pod.Node] {
			d.awaitMark(t)
		}
	}
}

// withdrawFrom withdraws this drain's requests for pods of these nodes.
func (d *decider) withdrawFrom(stays map[string]bool) {
	for _, r := range d.Cluster.Requests() {
		p := d.Cluster.Pod(r.PodUID)
		own := r.Requester == snapshot.RequesterOf(d.req.Self.ID) && d.led.mayUndo(Withdraw, r.UID)
		if own && !r.Withdrawn && p != nil && stays[p.Node] && !p.Terminating() {
			d.takeBack(Action{Kind: Withdraw, Request: r, Why: "its pod stays"})
		}
	}
}

// awaitMark has nothing scaled down while a deletion cost may be lowered any moment, or be so without being seen.
func (d *decider) awaitMark(t *try) {
	if d.markComes(t) {
		d.pending, d.costs[t.action.Pod.Namespace] = true, true
	}
}

// restoreCost gives a pod that stays the deletion cost back that the drain of this id has lowered, and reports whether to wait for
// that before anything in its namespace is scaled down.
func (d *decider) restoreCost(p *snapshot.Pod, drain string) bool {
	if !markedBy(p, drain) || p.Terminating() || !d.led.mayRestore(p.UID) {
		return false
	}
	if !d.takeBack(Action{Kind: RestoreCost, Pod: p, Why: "the pod stays"}) {
		return false
	}
	d.costs[p.Namespace] = true
	return true
}
