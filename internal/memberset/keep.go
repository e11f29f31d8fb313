package memberset

import (
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// keep makes what a member needs, in this order: its Service and its claims, its entry in the system's list, its pod. One that has not joined and is to go needs
// nothing more.
func (d *decision) keep(m *v1alpha1.SetMember) {
	g := d.group(m.Group)
	if g == nil || joining(m) && m.Removal != nil && m.Removal.Step != v1alpha1.RemovalRefilling {
		return
	}
	equipped := d.equip(g, m)
	p, foreign := d.podOf(m.ID)
	switch {
	case foreign:
		d.block(d.notOurs("pod", &p.Object, m.ID))
		return
	case !equipped || p != nil && p.Terminating || d.renews():
		return
	case p != nil && p.Finished && p.Created.Add(remakeAfter).After(d.Now):
		d.block(podEnded(m.ID, p, d.Set.Namespace))
		return
	case p != nil && p.Finished:
		d.act(Action{Kind: DeletePod, Member: m.ID, Name: p.Name, UID: p.UID, Version: p.Version})
		return
	}
	switch {
	case d.Kind.Lists && !d.listed(m, p):
	case p == nil:
		d.act(Action{Kind: MakePod, Member: m.ID, Pod: d.newPod(g, m)})
	case joining(m) || !p.Ready:
		d.block(d.awaited(m, p))
	}
}

// listed reports whether a member is on its system's list, or forms it, so that its pod may be made.
func (d *decision) listed(m *v1alpha1.SetMember, p *Pod) bool {
	switch {
	case d.status.Formed == nil:
		return p != nil || d.firstEquipped()
	case joining(m):
		return d.enlist(m, p)
	case d.listUnread() == "" && d.entry(m) == nil:
		d.block(notListed(m.ID, d.Set))
		return false
	}
	return true
}

// remakeAfter is how long after a pod was made another is made in its place at the earliest, where it has ended by itself: one that ends as it starts would be
// made without end.
const remakeAfter = time.Minute

// podOf is the pod of a member's name; foreign: it is not the set's.
func (d *decision) podOf(id string) (p *Pod, foreign bool) {
	place := at(d.pods, id)
	if place < 0 {
		return nil, false
	}
	return &d.Pods[place], !d.Pods[place].Ours
}

// equip makes the Service and the claims that a member lacks, and reports whether it has them.
func (d *decision) equip(g *group, m *v1alpha1.SetMember) bool {
	has := true
	if hasService(m) {
		place := at(d.services, m.ID)
		switch {
		case place < 0:
			d.act(Action{Kind: MakeService, Member: m.ID, Service: d.newService(m)})
			has = false
		case !d.Services[place].Ours:
			d.block(d.notOurs("Service", &d.Services[place].Object, m.ID))
			has = false
		case d.Kind.Addresses == nil && d.Services[place].IP == "":
			d.block(withoutAddress(m.ID, d.Set.Namespace))
			has = false
		}
	}
	return d.equipClaims(g, m) && has
}

// firstEquipped reports whether all that form the system have their claims. None starts before: a quorum may form it without the others, and a claim that is missing
// from then on is one that was lost.
func (d *decision) firstEquipped() bool {
	return !slices.ContainsFunc(d.status.Members, func(m v1alpha1.SetMember) bool {
		g := d.group(m.Group)
		return m.First && g != nil && slices.ContainsFunc(m.Shape.Claims, func(template string) bool { return at(d.claims, claimName(template, m.ID)) < 0 })
	})
}

// began reports whether a member may have written to its disk: with an empty one under its id it has forgotten what it voted for. The first members may have formed
// their system before that is seen: one whose pod was on a node may have voted.
func (d *decision) began(m *v1alpha1.SetMember) bool {
	e := d.entry(m)
	return whole(m) || d.status.Formed == nil && m.Node != "" || d.pod(m.ID) != nil || e != nil && e.Name != ""
}

// enlist has the system take a member onto its list, before its pod is there, since some end where they are not on it; and give it its whole part once it can.
// It reports whether the member is on the list. One is taken in at a time, and while none is taken off.
func (d *decision) enlist(m *v1alpha1.SetMember, p *Pod) bool {
	if why := d.listUnread(); why != "" {
		d.block(listNotKnown(why))
		return false
	}
	e := d.entry(m)
	switch {
	case e == nil && p != nil: // it has been taken off, and its pod cannot come back with what it got
		d.block(notListed(m.ID, d.Set))
		return false
	case e == nil && d.stranger() != nil:
		d.block(strangerJoins(m.ID, d.stranger()))
		return false
	case e == nil && (d.expels() || slices.ContainsFunc(d.List.Entries, func(e Entry) bool { return !e.Whole })):
		d.block(awaitsTurn(m.ID))
		return false
	case e == nil:
		if !d.admits() {
			d.act(Action{Kind: Admit, Member: m.ID, Addresses: d.addresses(m)})
		}
		d.block(awaitsTurn(m.ID))
		return false
	case d.deletes(m.ID), e.Name != "" && d.away(m.ID, p): // with its whole part it would count while it is away
	case !e.Whole && e.Name != "": // at the addresses by which the list has it, which are not always those of the template
		d.act(Action{Kind: Admit, Member: m.ID, Addresses: e.Addresses})
	}
	return true
}

// away reports whether the pod of a member that has started is gone or goes, as far as is known.
func (d *decision) away(id string, p *Pod) bool {
	return p == nil || p.Terminating || p.Finished || d.Policy != nil && slices.Contains(d.Policy.Leaving, id)
}

// stranger is an entry without its whole part that is of no member of the set, so that nothing is done for it here; nil: there is none.
func (d *decision) stranger() *Entry {
	at := slices.IndexFunc(d.List.Entries, func(e Entry) bool { return !e.Whole && d.memberOf(&e) == nil })
	if at < 0 {
		return nil
	}
	return &d.List.Entries[at]
}

// expels reports whether a member is being taken off the list.
func (d *decision) expels() bool {
	return slices.ContainsFunc(d.status.Members, func(m v1alpha1.SetMember) bool { return leaving(&m) && d.entry(&m) != nil })
}

// admits reports whether the system is asked to take a member in already.
func (d *decision) admits() bool {
	return slices.ContainsFunc(d.actions, func(a Action) bool { return a.Kind == Admit })
}

// awaited is what a member that joins waits for.
func (d *decision) awaited(m *v1alpha1.SetMember, p *Pod) Blocker {
	switch {
	case p.Node == "":
		return unscheduled(m.ID, p.Unscheduled, d.unbound(m), d.Set.Namespace)
	case d.Kind.forms() && d.status.Formed == nil && (p.Ready || p.Waiting == ""):
		return forming(m.ID, d.List.Unread)
	case !p.Ready:
		return notReady(m.ID, p.Waiting, d.Set.Namespace)
	case d.Kind.Empties && d.listUnread() != "":
		return listNotKnown(d.listUnread())
	}
	return notWhole(m.ID)
}

// unbound are the names of a member's claims that are bound to no volume.
func (d *decision) unbound(m *v1alpha1.SetMember) []string {
	var names []string
	for _, c := range d.claimsLeft(m) {
		if c.Unbound {
			names = append(names, c.Name)
		}
	}
	return names
}

// remove takes a member off the system's list first, so that what goes then is of none. Its pod goes before its claims, and these before its Service, by which
// others may still name it.
func (d *decision) remove(m *v1alpha1.SetMember) {
	if d.outlived(m) {
		d.refills(m)
		return
	}
	if q := d.requestFor(m); q != nil && !d.permits(q) {
		d.block(permitMissing(m.ID, q.Name, d.Set))
		return
	}
	if d.Kind.Lists {
		if why := d.listUnread(); why != "" {
			d.block(listNotKnown(why))
			return
		}
		if e := d.entry(m); e != nil {
			d.act(Action{Kind: Expel, Member: m.ID, Entry: &e.MemberRegistration})
			d.block(leavesList(m.ID))
			return
		}
	}
	switch p := d.pod(m.ID); {
	case d.untouched(m) && !d.emptied(m): // that it is empty was seen before
		d.block(listNotKnown(d.listUnread()))
		return
	case p != nil && p.Terminating:
		d.block(podTerminates(m.ID, d.Set.Namespace))
		return
	case p != nil:
		d.act(Action{Kind: DeletePod, Member: m.ID, Name: p.Name, UID: p.UID, Version: p.Version})
		d.block(podTerminates(m.ID, d.Set.Namespace))
		return
	}
	if d.removeClaims(m) {
		d.removeService(m)
	}
	if d.Kind.Empties && d.nothingLeft(m) {
		d.removed(m)
	}
}

// removed notes that nothing is left of a member, so that others may go while its system forgets that it keeps nothing there.
func (d *decision) removed(m *v1alpha1.SetMember) {
	m.Removal = d.at(m.Removal, v1alpha1.RemovalRemoved)
}

// outlived reports whether nothing is left of a member but what its system remembers, for which no request has to stand.
func (d *decision) outlived(m *v1alpha1.SetMember) bool {
	return m.Removal.Step == v1alpha1.RemovalRemoved && d.nothingLeft(m)
}

// permits reports whether the policy says that the member of a request goes, which keeps others from going meanwhile. One that was deleted is made anew, and says
// so once the request has seen it.
func (d *decision) permits(q *Request) bool {
	return d.Policy != nil && slices.Contains(d.Policy.Permits, q.UID)
}

// removeClaims reports whether none is left. A volume that is to stay is kept before its claim goes.
func (d *decision) removeClaims(m *v1alpha1.SetMember) bool {
	claims := d.claimsLeft(m)
	for _, c := range claims {
		keeps := d.Set.Spec.Removal.VolumeClaims != v1alpha1.VolumeClaimsDelete && c.Volume != ""
		switch {
		case keeps && !c.Known:
			d.block(volumeNotKnown(c.Name, c.Volume))
		case keeps && !c.Retained:
			d.act(Action{Kind: RetainVolume, Member: m.ID, Name: c.Volume, UID: c.VolumeUID})
		case c.Terminating:
			d.block(claimTerminates(c.Name, d.Set.Namespace))
		default:
			d.act(Action{Kind: DeleteClaim, Member: m.ID, Name: c.Name, UID: c.UID})
		}
	}
	return len(claims) == 0
}

// claimsLeft are those that were made for a member: by the names that its set gives them, since who may label a claim could have any removed.
func (d *decision) claimsLeft(m *v1alpha1.SetMember) []*Claim {
	var claims []*Claim
	for i := range d.Claims {
		c := &d.Claims[i]
		if c.Ours && slices.ContainsFunc(m.Shape.Claims, func(template string) bool { return claimName(template, m.ID) == c.Name }) {
			claims = append(claims, c)
		}
	}
	return claims
}

func (d *decision) removeService(m *v1alpha1.SetMember) {
	switch place := at(d.services, m.ID); {
	case place < 0 || !d.Services[place].Ours:
	case d.Services[place].Terminating:
		d.block(serviceTerminates(m.ID, d.Set.Namespace))
	default:
		d.act(Action{Kind: DeleteService, Member: m.ID, Name: m.ID, UID: d.Services[place].UID})
	}
}

// forget drops the members of which nothing is left.
func (d *decision) forget() {
	d.status.Members = slices.DeleteFunc(d.status.Members, func(m v1alpha1.SetMember) bool { return leaving(&m) && d.nothingLeft(&m) && d.forgotten(&m) })
}

// forgotten reports whether the system remembers nothing of a member either of which nothing is left.
func (d *decision) forgotten(m *v1alpha1.SetMember) bool {
	if !d.Kind.Empties {
		return true
	}
	e := d.entry(m)
	return m.Removal.Step == v1alpha1.RemovalRemoved && d.listUnread() == "" && (e == nil || !e.Excluded)
}

func (d *decision) nothingLeft(m *v1alpha1.SetMember) bool {
	listed := d.Kind.Lists && (d.listUnread() != "" || d.entry(m) != nil)
	pod := slices.ContainsFunc(d.Pods, func(p Pod) bool { return p.Name == m.ID && p.Ours })
	service := slices.ContainsFunc(d.Services, func(s Service) bool { return s.Name == m.ID && s.Ours })
	return !listed && !pod && !service && len(d.claimsLeft(m)) == 0
}
