package memberset

import (
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// mayBegin reports whether the removal of a member may begin now, beside those that are under way and after the last that began.
func (d *decision) mayBegin(m *v1alpha1.SetMember) bool {
	terms := &d.Set.Spec.Removal
	batch := terms.Batch
	if d.Kind.Lists && batch != v1alpha1.BatchNone {
		batch = v1alpha1.BatchMember
	}
	var going []*v1alpha1.SetMember
	for i := range d.status.Members {
		if other := &d.status.Members[i]; leaving(other) && other.Removal.Step == v1alpha1.RemovalRemoving {
			going = append(going, other)
		}
	}
	lost := d.lostBefore(m)
	together := len(going) > 0 && !slices.ContainsFunc(going, func(o *v1alpha1.SetMember) bool { return zoneOf(o) != zoneOf(m) })
	switch {
	case batch == v1alpha1.BatchNone:
		d.block(removalsOff(m.ID))
		return false
	case batch == v1alpha1.BatchAll, together && batch != v1alpha1.BatchMember:
		return true
	case len(going) > 0:
		d.block(awaitsRemoval(m.ID, going[0].ID))
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

// nextRemoval is when another batch of removals may begin.
func (d *decision) nextRemoval() time.Time {
	interval := d.Set.Spec.Removal.MinInterval
	if d.status.LastRemovalTime == nil || interval == nil {
		return time.Time{}
	}
	return d.status.LastRemovalTime.Add(interval.Duration)
}
