package observe

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// LeaseFacts returns what decisions know of a Lease; it has no ID where the Lease is no drain's.
func LeaseFacts(l *coordinationv1.Lease) *snapshot.Lease {
	id, _ := snapshot.LeaseID(l.Name)
	facts := &snapshot.Lease{ID: id, UID: l.UID, ResourceVersion: l.ResourceVersion, Holder: text.Line(ptr.Deref(l.Spec.HolderIdentity, ""))}
	if at := l.Spec.AcquireTime; at != nil {
		facts.Acquired = at.Time
	}
	if at := l.Spec.RenewTime; at != nil {
		facts.Renewed = at.Time
	}
	return facts
}

func setLease(c *snapshot.Cluster, l *snapshot.Lease) {
	if l.ID != "" {
		c.SetLease(l)
	}
}

func (o *Observer) watchLeases(q question) {
	watchKind(o, q, &coordinationv1.Lease{}, o.client.CoordinationV1().Leases(q.namespace), kind[*coordinationv1.Lease, snapshot.Lease]{
		facts: LeaseFacts,
		id:    func(l *snapshot.Lease) string { return string(l.UID) },
		set:   setLease,
		drop:  func(c *snapshot.Cluster, l *snapshot.Lease) { c.DeleteLease(l.ID) },
		present: func(c *snapshot.Cluster, l *snapshot.Lease) *snapshot.Lease {
			present, _ := c.LeaseOf(l.ID)
			return present
		},
		version: func(l *snapshot.Lease) string { return l.ResourceVersion },
	})
}

// leasesOfDrains reads the Leases of all drains: a label selects them.
func leasesOfDrains() question {
	return question{resource: leases, namespace: snapshot.LeaseNamespace, labels: snapshot.DrainLabel}
}

// leaseNamed reads the Lease of one drain.
func leaseNamed(id string) question {
	return ofName(leases, snapshot.LeaseNamespace, snapshot.LeaseName(id))
}

// seeNode asks, where only nodes are watched, for the Lease of the drain that works on one. The caller holds the lock.
func (o *Observer) seeNode(n *snapshot.Node) {
	if o.only && needsLease(n) {
		o.ask(leaseNamed(n.Drain.ID))
	}
}

// needsLease reports whether a record says that a Lease gives the signs of life of the drain that works on a node.
func needsLease(n *snapshot.Node) bool {
	return n.Drain != nil && n.Drain.Lease && n.Drain.Working()
}

// noteLeases notes whether the Leases that a feed reads are known. What a broken watch has brought may be old. The caller holds the lock.
func (o *Observer) noteLeases(f *feed) {
	if f.question.resource != leases {
		return
	}
	id := ""
	if selector, err := fields.ParseSelector(f.question.fields); err == nil {
		name, _ := selector.RequiresExactMatch(metav1.ObjectNameField)
		id, _ = snapshot.LeaseID(name)
	}
	o.cluster.SetLeasesRead(id, f.synced && f.err == nil)
}

// leasesNeeded reads the Leases of drains, if a record on a node that was read is too old to say whether its drain runs.
func (l *Look) leasesNeeded(ctx context.Context) error {
	now := l.clock.Now()
	if !l.cluster.AnyNode(func(n *snapshot.Node) bool { return needsLease(n) && !n.Drain.LiveAt(now) }) {
		return nil
	}
	q := leasesOfDrains()
	return l.want(ctx, q.resource, q.namespace, "", func(ctx context.Context) error {
		err := list(l, l.client.CoordinationV1().Leases(q.namespace).List, metav1.ListOptions{LabelSelector: q.labels},
			func(lease *coordinationv1.Lease) { setLease(l.cluster, LeaseFacts(lease)) })(ctx)
		l.cluster.SetLeasesRead("", err == nil)
		return err
	})
}
