package memberset

import (
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// mayBegin reports whether the removal of a member may begin now, beside those that are under way and after the last that began. One of which only what Kubernetes
// removes is left holds no other for longer than the interval: a pod of a node that is lost may be there for ever (source 002, waitBetweenRemovalsSeconds).
func (d *decision) mayBegin(m *v1alpha1.SetMember) bool {
	batch := d.Set.Spec.Removal.Batch
	if d.Kind.Lists && batch != v1alpha1.BatchNone {
		batch = v1alpha1.BatchMember
	}
	going := d.going()
	holding := slices.DeleteFunc(slices.Clone(going), d.ends)
	if len(holding) > 0 {
		going = holding
	}
	lost := d.lostBefore(m)
	together := len(going) > 0 && !slices.ContainsFunc(going, func(o *v1alpha1.SetMember) bool { return zoneOf(o) != zoneOf(m) })
	switch {
	case batch == v1alpha1.BatchNone:
		d.block(removalsOff(m.ID))
		return false
	case batch == v1alpha1.BatchAll, together && batch != v1alpha1.BatchMember:
		return true
	case len(holding) > 0:
		d.block(awaitsRemoval(m.ID, holding[0].ID))
		return false
	case lost != "":
		d.block(awaitsRemoval(m.ID, lost))
		return false
	}
	if next := d.nextRemoval(); d.Now.Before(next) {
		d.block(removalsApart(m.ID, next))
		return false
	}
	return true
}

// going are the members of which something is removed still.
func (d *decision) going() []*v1alpha1.SetMember {
	var all []*v1alpha1.SetMember
	for i := range d.status.Members {
		if m := &d.status.Members[i]; m.Removal != nil && m.Removal.Step == v1alpha1.RemovalRemoving {
			all = append(all, m)
		}
	}
	return all
}

// ends reports whether a member that is being removed has left its system, and its pod is gone or goes.
func (d *decision) ends(m *v1alpha1.SetMember) bool {
	if d.Kind.Lists && (d.listUnread() != "" || d.entry(m) != nil) {
		return false
	}
	p := d.pod(m.ID)
	return p == nil || p.Terminating
}

// nextRemoval is when another batch of removals may begin.
func (d *decision) nextRemoval() time.Time {
	interval := d.Set.Spec.Removal.MinInterval
	if d.status.LastRemovalTime == nil || interval == nil {
		return time.Time{}
	}
	return d.status.LastRemovalTime.Add(interval.Duration)
}
