package memberset

import (
	"slices"

	"usher.sh/usher/api/v1alpha1"
)

// maybeExcluded reports whether the system may have been asked to keep nothing on a member that it has: where its request is taken back, that is as well.
func maybeExcluded(r *v1alpha1.MemberRemoval) bool {
	switch r.Step {
	case v1alpha1.RemovalEmptying, v1alpha1.RemovalReplaced, v1alpha1.RemovalRemoving, v1alpha1.RemovalRefilling:
		return true
	case v1alpha1.RemovalGrowing, v1alpha1.RemovalRemoved:
	}
	return false
}

// unmarked is how far a member is whose request was taken back; nil: there is nothing to take back.
func (d *decision) unmarked(m *v1alpha1.SetMember) *v1alpha1.MemberRemoval {
	if !d.Kind.Empties || m.Removal == nil || !maybeExcluded(m.Removal) {
		return nil
	}
	if m.Removal.Step == v1alpha1.RemovalRefilling {
		return m.Removal
	}
	return d.at(m.Removal, v1alpha1.RemovalRefilling)
}

// marked is how far the removal of a member is at first for a request: what was begun for another is gone on with.
func (d *decision) marked(m *v1alpha1.SetMember, q *Request) *v1alpha1.MemberRemoval {
	step := v1alpha1.RemovalGrowing
	if d.Kind.Empties && m.Removal != nil && maybeExcluded(m.Removal) {
		step = v1alpha1.RemovalEmptying
	}
	return &v1alpha1.MemberRemoval{Request: q.Name, RequestUID: q.UID, Step: step, StartTime: d.stamp()}
}

func (d *decision) at(r *v1alpha1.MemberRemoval, step v1alpha1.MemberRemovalStep) *v1alpha1.MemberRemoval {
	next := *r
	next.Step, next.StartTime = step, d.stamp()
	return &next
}

// emptied reports whether the system says that nothing is lost with a member. Where members are not emptied none has anything that is asked about.
func (d *decision) emptied(m *v1alpha1.SetMember) bool {
	if !d.Kind.Empties {
		return true
	}
	e := d.entry(m)
	return d.listUnread() == "" && e != nil && e.Empty
}

// empties has what a member has be moved to others, of which there are enough by then. That is asked for at each look, until nothing is left.
func (d *decision) empties(m *v1alpha1.SetMember) {
	if m.Removal.Step != v1alpha1.RemovalEmptying { // it is written down first
		return
	}
	if why := d.listUnread(); why != "" {
		d.block(listNotKnown(why))
		return
	}
	d.act(Action{Kind: Empty, Member: m.ID})
	d.block(memberEmpties(m.ID))
}

// refills has the system use a member again, or forget one of which nothing is left, and reports whether it does.
func (d *decision) refills(m *v1alpha1.SetMember) bool {
	if why := d.listUnread(); why != "" {
		d.block(listNotKnown(why))
		return false
	}
	if e := d.entry(m); e == nil || !e.Excluded {
		return true
	}
	d.act(Action{Kind: Refill, Member: m.ID})
	d.block(memberRefills(m.ID))
	return false
}

// returns drops what is left of a request that was taken back once the system uses the member again.
func (d *decision) returns(m *v1alpha1.SetMember) {
	if d.refills(m) {
		m.Removal = nil
	}
}

// reopened reports whether a member that is being removed, of which all is there, got something again: another client has taken back what emptied it.
func (d *decision) reopened(m *v1alpha1.SetMember) bool {
	return d.Kind.Empties && d.untouched(m) && d.listUnread() == "" && !d.emptied(m)
}

// blockExcluded says which members of a group the system keeps nothing on though no request of theirs stands, by their ids or otherwise: they run and do not do their
// work, and others wait for them.
func (d *decision) blockExcluded(g string) {
	if !d.Kind.Empties || d.listUnread() != "" {
		return
	}
	for _, m := range d.counted(g, whole) {
		b := memberExcluded(m.ID, d.Set.Namespace)
		if d.Policy != nil && slices.Contains(d.Policy.Preparing, m.ID) {
			b = memberPrepared(m.ID, d.Set)
		}
		if e := d.entry(m); e != nil && (e.Excluded || e.Healthy && !e.Whole) && !slices.Contains(d.blockers, b) {
			d.block(b)
		}
	}
}

// refillingIn is how many members of a group take part again soon: no other is made for them.
func (d *decision) refillingIn(g string) (n int) {
	for i := range d.status.Members {
		if m := &d.status.Members[i]; m.Group == g && m.Removal != nil && m.Removal.Step == v1alpha1.RemovalRefilling {
			n++
		}
	}
	return n
}
