package drain

import (
	"fmt"
	"time"

	"usher.sh/usher/internal/snapshot"
)

// leases is the resource whose gap says why no Lease can be read.
const leases = "leases"

// LiveUntil returns until when a drain has to be taken for one that may still be running: by its own sign of life, by those on the nodes
// on which it works, and by its Lease where one of these says that it has one. The drain has ended where that is not after now.
func LiveUntil(view snapshot.View, who snapshot.Drainer) time.Time {
	return liveUntil(view, everywhere(view, who))
}

// everywhere is a drain by its record and by those on the nodes on which it works: with the last of their signs of life, and with a Lease
// where one of them says so.
func everywhere(view snapshot.View, who snapshot.Drainer) snapshot.Drainer {
	who.Beat = snapshot.Believed(who.Beat, view.Now)
	for _, n := range view.Cluster.Nodes() {
		if n.Drain == nil || n.Drain.ID != who.ID || !n.Drain.Working() {
			continue
		}
		who.Beat = later(who.Beat, snapshot.Believed(n.Drain.Beat, view.Now))
		who.Lease = who.Lease || n.Drain.Lease
	}
	return who
}

// liveUntil is LiveUntil by one record and the Lease that it names. A Lease that cannot be read may be in force: UnreadFor bounds that.
func liveUntil(view snapshot.View, who snapshot.Drainer) time.Time {
	until := lastSign(view, who).Add(snapshot.LiveFor)
	if _, known := view.Cluster.LeaseOf(who.ID); who.Lease && !known {
		return later(until, snapshot.Believed(who.Beat, view.Now).Add(snapshot.UnreadFor))
	}
	return until
}

// lastSign is when a drain gave its last sign of life, by one record and the Lease that it names.
func lastSign(view snapshot.View, who snapshot.Drainer) time.Time {
	last := snapshot.Believed(who.Beat, view.Now)
	if lease, _ := view.Cluster.LeaseOf(who.ID); who.Lease && lease != nil {
		return later(last, snapshot.Believed(lease.Renewed, view.Now))
	}
	return last
}

// SignOfLife says when a drain gave its last sign of life, when it counts as ended, and why its Lease cannot be read, "" where it can.
func SignOfLife(view snapshot.View, who snapshot.Drainer) (last, until time.Time, unread string) {
	return signOfLife(view, everywhere(view, who))
}

// signOfLife is SignOfLife by one record and the Lease that it names.
func signOfLife(view snapshot.View, who snapshot.Drainer) (last, until time.Time, unread string) {
	if _, known := view.Cluster.LeaseOf(who.ID); who.Lease && !known {
		unread = "its Lease cannot be read"
		if gap, some := view.Cluster.Gap(leases); some {
			unread += ": " + gap.Reason
		}
	}
	return lastSign(view, who), liveUntil(view, who), unread
}

// mayRun reports whether the drain of a record has to be taken for one that is running.
func (d *decider) mayRun(who snapshot.Drainer) bool {
	return !d.req.Dead[who.ID] && liveUntil(d.View, who).After(d.Now)
}

// anotherDrains says that another drain works on the node.
func (d *decider) anotherDrains(n *snapshot.Node) Blocker {
	last, until, unread := signOfLife(d.View, n.Drain.Drainer)
	b := Blocker{
		Reason: AnotherDrain, Since: n.Drain.Since, Retry: until,
		Message: fmt.Sprintf("%s is draining this node (last sign of life %s ago); this drain goes on when that one ends, or in %s without another sign",
			n.Drain.By, short(max(0, d.Now.Sub(last))), short(max(0, until.Sub(d.Now)))),
		Remedy: "wait, or stop the other drain",
	}
	if unread != "" {
		b.Message = fmt.Sprintf("%s was draining this node %s ago, and whether that drain still runs is not known: %s; this drain goes on when that one ends, or in %s",
			n.Drain.By, short(max(0, d.Now.Sub(last))), unread, short(max(0, until.Sub(d.Now))))
		b.Remedy = "wait; its Lease is read again, or stop the other drain"
		if gap, some := d.Cluster.Gap(leases); some && gap.Final {
			b.Remedy = "wait, or ask for the right to list and watch Leases in namespace " + snapshot.LeaseNamespace + " and run the drain again"
		}
	}
	return b
}

// claimStands reports whether this drain has the node, by its sign of life.
func claimStands(view snapshot.View, n *snapshot.Node, self snapshot.Drainer) bool {
	return n != nil && n.Drain != nil && n.Drain.ID == self.ID && claimCounts(view, n.Drain, self)
}

// claimCounts reports whether this drain's own record counts: no other drain may have taken its node. Of what is not known nothing does.
func claimCounts(view snapshot.View, r *snapshot.DrainRecord, self snapshot.Drainer) bool {
	return r.LiveAt(view.Now) || leased(view, r, self)
}

// leased reports whether the drain's Lease gives the sign of life for its own record: this process holds it, and it has been in force
// since the record was written. After a gap, in which another drain may have taken the node, the record has to be written anew.
func leased(view snapshot.View, r *snapshot.DrainRecord, self snapshot.Drainer) bool {
	lease, _ := view.Cluster.LeaseOf(r.ID)
	return r.Lease && r.Working() && lease != nil && lease.Holder == self.Holder() && lease.LiveAt(view.Now) && !r.Beat.Before(lease.Acquired)
}

// renewsInTime reports whether a lease may be renewed: one that has been in force without a gap still has to be.
func renewsInTime(view snapshot.View, renewed *snapshot.Lease) bool {
	if !renewed.Acquired.Before(renewed.Renewed) {
		return true
	}
	lease, _ := view.Cluster.LeaseOf(renewed.ID)
	return lease != nil && lease.LiveAt(view.Now)
}
