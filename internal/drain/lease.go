package drain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// hasLease reports whether the drain's signs of life are in a Lease: Leases can be read, and making one was not refused. Elsewhere they
// are kept on each node.
func (d *decider) hasLease() bool {
	if _, known := d.Cluster.LeaseOf(d.req.Self.ID); !known || d.req.Forecast {
		return false
	}
	return !refusedLease(d.leaseTry())
}

// leaseTry is the last renewal of the drain's Lease that was sent, nil before the first.
func (d *decider) leaseTry() *try { return d.led.tries[tryKey{RenewLease, leaseTarget(d.req.Self.ID)}] }

// refusedLease reports whether the drain can have no Lease: for want of a right, or because the namespace is missing or terminating.
func refusedLease(t *try) bool {
	if t == nil {
		return false
	}
	code := t.answer.Code
	return final(code) || t.action.Lease.UID == "" && (code == answers.Gone || code == answers.NamespaceTerminating)
}

// works reports whether the drain has a node, drained or not, or takes one.
func (d *decider) works(nodes []target) bool {
	return d.cordoning || slices.ContainsFunc(nodes, func(t target) bool { return t.node != nil && d.own(t.node) })
}

// keepLease creates the drain's Lease, or renews it. One that another process of this drain held is taken over at once.
func (d *decider) keepLease() {
	if !d.hasLease() {
		return
	}
	now := d.Now.Truncate(time.Microsecond) // as the API keeps it
	next := &snapshot.Lease{ID: d.req.Self.ID, Holder: d.req.Self.Holder(), Acquired: now, Renewed: now}
	if lease, _ := d.Cluster.LeaseOf(next.ID); lease != nil {
		next.UID, next.ResourceVersion = lease.UID, lease.ResourceVersion
		if lease.LiveAt(d.Now) {
			next.Acquired = lease.Acquired
		}
		due := snapshot.Believed(lease.Renewed, d.Now).Add(snapshot.BeatEvery)
		d.wake(due)
		if lease.Holder == next.Holder && d.Now.Before(due) {
			return
		}
	}
	d.try(Action{Kind: RenewLease, Lease: next, Why: "sign of life"})
}

// noteLease says where the signs of life are kept if not in a Lease.
func (d *decider) noteLease() {
	why := ""
	if gap, some := d.Cluster.Gap(leases); some && gap.Final {
		why = gap.Reason
	} else if t := d.leaseTry(); refusedLease(t) {
		why = t.answer.Message
	}
	if why != "" && !d.req.Forecast {
		d.out.Notes = append(d.out.Notes, "signs of life are kept on each node, not in a Lease: "+why)
	}
}

// takenOver reports whether another process of this drain has taken the Lease that this one held, and which: it runs the drain now.
func (d *decider) takenOver() (holder string, taken bool) {
	t := d.leaseTry()
	if t == nil || !d.led.heldLease {
		return "", false
	}
	lease, _ := d.Cluster.LeaseOf(d.req.Self.ID)
	if lease == nil || lease.Holder == d.req.Self.Holder() || lease.ResourceVersion == t.version {
		return "", false
	}
	return cmp.Or(lease.Holder, "another client"), true
}

// endLease deletes the drain's own Lease once nothing else is to be done, also one that an earlier process of it has left.
func (d *decider) endLease(failed []string) []string {
	if len(d.out.Actions) > 0 || d.pending {
		return failed
	}
	if t := d.leaseTry(); t != nil && !d.deletedSince(t) && d.unseen(t) {
		d.pending = true
		return failed
	}
	lease, _ := d.Cluster.LeaseOf(d.req.Self.ID)
	if lease == nil {
		return failed
	}
	return d.deleteLease(failed, lease, "the drain has ended")
}

// deletedSince reports whether the drain's Lease was deleted after it was written: no version shows that it had been there.
func (d *decider) deletedSince(renewal *try) bool {
	t := d.led.tries[tryKey{DeleteLease, leaseTarget(d.req.Self.ID)}]
	return t != nil && t.answer.Code == answers.Accepted && !t.sent.Before(renewal.done)
}

// deleteLease deletes a Lease. One of which the server says that it is gone is, though it may not be seen.
func (d *decider) deleteLease(failed []string, lease *snapshot.Lease, why string) []string {
	t := d.led.tries[tryKey{DeleteLease, leaseTarget(lease.ID)}]
	if t != nil && t.answer.Code == answers.Gone && t.version == lease.ResourceVersion {
		return failed
	}
	return d.undoOr(failed, Action{Kind: DeleteLease, Lease: lease, Why: why}, leaseLeft(lease), revert)
}

// dropLeases deletes the Leases of other drains that owns accepts, once nothing else of them is to be undone.
func (d *decider) dropLeases(owns func(snapshot.Drainer) bool, failed []string) []string {
	if len(d.out.Actions) > 0 || d.pending || d.req.Forecast {
		return failed
	}
	for _, lease := range d.Cluster.Leases() {
		if lease.ID == d.req.Self.ID || !owns(leaseHolder(lease)) || !d.undoable(DeleteLease, leaseTarget(lease.ID)) {
			continue
		}
		failed = d.deleteLease(failed, lease, "its drain has ended")
	}
	return failed
}

// leaseHolder is the drain of a Lease.
func leaseHolder(lease *snapshot.Lease) snapshot.Drainer {
	return snapshot.Drainer{ID: lease.ID, Lease: true}
}

func leaseLeft(lease *snapshot.Lease) string {
	return fmt.Sprintf("the Lease %s is left", leaseKey(lease.ID))
}

// leaseKey names the Lease of a drain.
func leaseKey(id string) snapshot.Key {
	return snapshot.Key{Namespace: snapshot.LeaseNamespace, Name: snapshot.LeaseName(id)}
}

// ReleaseLease returns what deletes the Lease of a drain that has ended, false where there is none.
func ReleaseLease(view snapshot.View, who snapshot.Drainer, dead map[string]bool) (Action, bool) {
	lease, _ := view.Cluster.LeaseOf(who.ID)
	if lease == nil || !dead[who.ID] && LiveUntil(view, leaseHolder(lease)).After(view.Now) {
		return Action{}, false
	}
	return Action{Kind: DeleteLease, Lease: lease, Why: "its drain has ended"}, true
}
