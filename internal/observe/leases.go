package observe

import (
	"context"
	"maps"
	"slices"

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
	return l.leases(ctx, "", metav1.ListOptions{LabelSelector: leasesOfDrains().labels})
}

// LeasesOfNodes reads the Leases of the drains that work on the nodes that were read: each by its name, all drains' where they are many.
func (l *Look) LeasesOfNodes(ctx context.Context) error {
	ids := map[string]bool{}
	for _, n := range l.cluster.Nodes() {
		if needsLease(n) {
			ids[n.Drain.ID] = true
		}
	}
	if len(ids) > maxNamed {
		return l.leases(ctx, "", metav1.ListOptions{LabelSelector: leasesOfDrains().labels})
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		name := fields.OneTermEqualSelector(metav1.ObjectNameField, snapshot.LeaseName(id))
		if err := l.leases(ctx, id, metav1.ListOptions{FieldSelector: name.String()}); err != nil {
			return err
		}
	}
	return nil
}

// leases reads the Lease of one drain, or those of all where id is "".
func (l *Look) leases(ctx context.Context, id string, options metav1.ListOptions) error {
	return l.want(ctx, leases, snapshot.LeaseNamespace, id, func(ctx context.Context) error {
		err := list(l, l.client.CoordinationV1().Leases(snapshot.LeaseNamespace).List, options,
			func(lease *coordinationv1.Lease) { setLease(l.cluster, LeaseFacts(lease)) })(ctx)
		l.cluster.SetLeasesRead(id, err == nil)
		return err
	})
}
