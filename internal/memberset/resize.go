package memberset

import (
	"cmp"
	"slices"
	"strings"

	"usher.sh/usher/api/v1alpha1"
)

// Limits of the status, as its schema has them.
const (
	mostMembers    = 500
	mostBlockers   = 32
	mostSelected   = 16 // labels of a node selector
	mostCrashLoops = 8
)

// mark notes which requests stand for members, and forgets those that do not any more, but where there is no way back.
func (d *decision) mark() {
	for i := range d.status.Members {
		m := &d.status.Members[i]
		q := d.requestFor(m)
		switch {
		case leaving(m) && q != nil && d.lostBefore(m) != "":
			m.Removal = d.marked(m, q)
		case leaving(m) && (q != nil && q.Removing || !d.untouched(m)):
			d.stand(m, q)
		case q == nil:
			m.Removal = d.unmarked(m)
		case m.Removal == nil || m.Removal.RequestUID != q.UID || m.Removal.Step == v1alpha1.RemovalRefilling || leaving(m): // its request was taken back in the moment in which it was to go
			m.Removal = d.marked(m, q)
		}
	}
}

// stand has a request stand for a member that is being removed, since its pod goes by what that lets: another one where that which let it go was taken away with its
// finalizer, and the set's own where there is none. One of which nothing is left needs none.
func (d *decision) stand(m *v1alpha1.SetMember, q *Request) {
	switch g := d.group(m.Group); {
	case d.outlived(m):
	case q != nil:
		m.Removal.Request, m.Removal.RequestUID = q.Name, q.UID
	case g != nil && !slices.ContainsFunc(d.requestsOf[m.ID], func(i int) bool { return !d.Requests[i].Over }):
		d.act(Action{Kind: Mark, Member: m.ID, Request: d.request(m, surplusRequest(m.ID), g.Role)})
	}
}

// disown takes back what the set has asked for itself of members of a role that their group does not have any more: their policy has no such member.
func (d *decision) disown() {
	for i := range d.Requests {
		q := &d.Requests[i]
		m := d.member(q.Member)
		if m == nil || !q.Own || q.Over || q.Deleted || leaving(m) {
			continue
		}
		if g := d.group(m.Group); g != nil && q.Role != g.Role {
			d.act(Action{Kind: Unmark, Member: m.ID, Name: q.Name, UID: q.UID})
		}
	}
}

// untouched reports whether all of a member is there that cannot be brought back.
func (d *decision) untouched(m *v1alpha1.SetMember) bool {
	p := d.pod(m.ID)
	return p != nil && !p.Terminating && (!d.Kind.Lists || d.listUnread() == "" && d.entry(m) != nil)
}

// requestFor is the one that stands for a member: of several the one that may remove it, or else the one that is noted already, or else the first by name.
func (d *decision) requestFor(m *v1alpha1.SetMember) *Request {
	var found *Request
	for _, i := range d.requestsOf[m.ID] {
		q := &d.Requests[i]
		if q.Over || q.Deleted && !q.Removing || d.misses(m, q) {
			continue
		}
		if found == nil || cmp.Or(-compare(q.Removing, found.Removing), -compare(noted(m, q), noted(m, found)), strings.Compare(q.Name, found.Name)) < 0 {
			found = q
		}
	}
	return found
}

// misses reports whether the request of another asks for a member by a role that its group does not have (any more): its policy has no such member, and lets none
// go. The set takes its own back (disown).
func (d *decision) misses(m *v1alpha1.SetMember, q *Request) bool {
	g := d.group(m.Group)
	return g != nil && q.Role != g.Role && !q.Own && !q.Removing && !leaving(m)
}

func noted(m *v1alpha1.SetMember, q *Request) bool {
	return m.Removal != nil && m.Removal.RequestUID == q.UID
}

// compare is 1 where the first alone is true, -1 where the second alone is.
func compare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// resize makes members where too few are counted, and marks some where there are too many.
func (d *decision) resize(g *group) {
	if g.PerNode != nil {
		d.spread(g)
		return
	}
	wanted := d.wanted(g.MemberGroup)
	if d.Kind.Lists && (wanted != *g.Replicas || wanted == 0) {
		d.block(replicasUnsafe(g.MemberGroup, wanted))
	}
	counted := d.counted(g.Name, anyMember)
	switch missing := int(wanted) - len(counted); {
	case missing > 0 && d.unmark(g, missing) == 0:
		d.grow(g, missing-d.refillingIn(g.Name))
	case missing < 0:
		d.shrink(g, counted, -missing)
	}
}

// unmark takes back what the set has asked for itself while members are wanted again, and returns how many. What was begun is gone on with.
func (d *decision) unmark(g *group, missing int) (unmarked int) {
	for i := range d.status.Members {
		m := &d.status.Members[i]
		if m.Group != g.Name || m.Removal == nil || leaving(m) || !whole(m) || unmarked == missing {
			continue
		}
		if q := d.requestFor(m); q != nil && q.Own && !q.Deleted && q.Name == surplusRequest(m.ID) {
			d.act(Action{Kind: Unmark, Member: m.ID, Name: q.Name, UID: q.UID})
			unmarked++
		}
	}
	return unmarked
}

// grow writes members down under ids that nothing remembers. The system is formed by all that the spec asks for at first, together.
func (d *decision) grow(g *group, missing int) {
	first := d.Kind.forms() && d.status.Formed == nil
	if first && len(d.Set.Status.Members) > 0 { // those that form it are written down at once, and are not added to
		if missing > 0 {
			d.block(growsOnceFormed(g.Name, missing))
		}
		return
	}
	all := d.numbersOf(g)
	for range missing {
		if len(d.status.Members) >= mostMembers {
			d.block(tooManyMembers())
			break
		}
		d.status.Members = append(d.status.Members, v1alpha1.SetMember{
			ID: d.idOf(g.Name, all.next()), Group: g.Name, State: v1alpha1.MemberJoining, First: first, StartTime: d.stamp(), AvoidNodes: d.avoided(g), Shape: d.shapeOf(g),
		})
	}
}

// avoided is the node of the member that the next one is the successor of: of those that have none that joins the last that waits for one. Where each avoided the nodes of
// all that are marked, many that are replaced at once would leave none.
func (d *decision) avoided(g *group) []string {
	var last *v1alpha1.SetMember
	for i := range d.status.Members {
		m := &d.status.Members[i]
		if m.Group != g.Name || m.Removal == nil || m.Node == "" || d.succeeded(m) {
			continue
		}
		if last == nil || cmp.Or(compare(awaitsSuccessor(m), awaitsSuccessor(last)), m.Removal.StartTime.Compare(last.Removal.StartTime.Time)) > 0 {
			last = m
		}
	}
	if last == nil {
		return nil
	}
	return []string{last.Node}
}

// awaitsSuccessor reports whether a marked member waits for one that takes its place.
func awaitsSuccessor(m *v1alpha1.SetMember) bool { return m.Removal.Step == v1alpha1.RemovalGrowing }

// succeeded reports whether as many members of its group were made to avoid the node of a marked one as are marked there, whether they have joined or not.
func (d *decision) succeeded(m *v1alpha1.SetMember) bool {
	marked, join := 0, 0
	for i := range d.status.Members {
		switch other := &d.status.Members[i]; {
		case other.Group != m.Group:
		case other.Removal != nil && other.Node == m.Node:
			marked++
		case slices.Contains(other.AvoidNodes, m.Node):
			join++
		}
	}
	return join >= marked
}

// shrink marks as many of those that are counted. A request that is there already is one for a member that is gone on with without it.
func (d *decision) shrink(g *group, counted []*v1alpha1.SetMember, surplus int) {
	if d.status.Formed == nil {
		d.block(notFormed(d.Set.Name))
		return
	}
	for range surplus {
		at := d.worst(counted)
		d.act(Action{Kind: Mark, Member: counted[at].ID, Request: d.request(counted[at], surplusRequest(counted[at].ID), g.Role)})
		counted = slices.Delete(slices.Clone(counted), at, at+1)
	}
}

// worst is who goes first: one that does not do its work, then one in the zone that has the most, then the youngest, then the one with the lowest id.
func (d *decision) worst(members []*v1alpha1.SetMember) int {
	zones := map[string]int{}
	for _, m := range members {
		zones[m.Zone]++
	}
	worst := 0
	for i := range members {
		a, b := members[i], members[worst]
		before := cmp.Or(
			cmp.Compare(d.health(a), d.health(b)), -cmp.Compare(zones[a.Zone], zones[b.Zone]), -a.StartTime.Compare(b.StartTime.Time), strings.Compare(a.ID, b.ID),
		)
		if before < 0 {
			worst = i
		}
	}
	return worst
}

// health is less for members that do less. One that the system uses no more, since it is excluded there, does not do its work though its pod is Ready.
func (d *decision) health(m *v1alpha1.SetMember) int {
	p := d.pod(m.ID)
	switch {
	case joining(m):
		return 0
	case p == nil || p.Terminating || p.Finished:
		return 1
	case !p.Ready, d.Kind.Empties && d.listUnread() == "" && !d.works(m):
		return 2
	}
	return 3
}

// joined notes which members do their work: those that their system's list says have their whole part, Ready or not, since from then on they are missed; without
// a list those whose pods have been Ready.
func (d *decision) joined() {
	for i := range d.status.Members {
		if m := &d.status.Members[i]; joining(m) && d.status.Formed != nil && d.works(m) {
			m.State = v1alpha1.MemberWhole
		}
	}
	for i := range d.status.Members {
		if m := &d.status.Members[i]; whole(m) && !d.succeeds(m) {
			m.AvoidNodes = nil
		}
	}
}

// succeeds reports whether one of its group is marked on a node that a member avoids: no other is its successor.
func (d *decision) succeeds(m *v1alpha1.SetMember) bool {
	return slices.ContainsFunc(d.status.Members, func(o v1alpha1.SetMember) bool {
		return o.Group == m.Group && o.Removal != nil && slices.Contains(m.AvoidNodes, o.Node)
	})
}

func (d *decision) works(m *v1alpha1.SetMember) bool {
	if d.Kind.Lists || d.Kind.Empties {
		e := d.entry(m)
		return d.listUnread() == "" && e != nil && e.Whole && e.Name != "" && e.Processes >= d.processes(m)
	}
	p := d.pod(m.ID)
	return p != nil && p.Ready && !p.Terminating
}

// processes is how many of a member are to do their work, where the system says of each.
func (d *decision) processes(m *v1alpha1.SetMember) int {
	if !d.Kind.Empties {
		return 0
	}
	return int(max(m.Shape.MembersPerPod, 1))
}

// release says of each marked member whether its group has enough without it, and lets go those whose requests say that they may.
func (d *decision) release() {
	for i := range d.status.Members {
		m := &d.status.Members[i]
		switch {
		case m.Removal == nil:
			continue
		case m.Removal.Step == v1alpha1.RemovalRefilling:
			d.returns(m)
			continue
		}
		if step := d.nextStep(m); m.Removal.Step != step {
			m.Removal = d.at(m.Removal, step)
		}
	}
}

// nextStep is how far a marked member's removal can be.
func (d *decision) nextStep(m *v1alpha1.SetMember) v1alpha1.MemberRemovalStep {
	q := d.requestFor(m)
	switch {
	case leaving(m) && !d.reopened(m):
		return m.Removal.Step
	case q == nil || !d.dispensable(m):
		d.blockExcluded(m.Group)
		if d.Kind.Empties && maybeExcluded(m.Removal) {
			d.block(grows(m.ID))
			return v1alpha1.RemovalEmptying
		}
		return v1alpha1.RemovalGrowing
	case d.Kind.Lists && d.listUnread() != "": // there is no way back from Removing, and nothing could go on
		d.block(listNotKnown(d.listUnread()))
	case d.Kind.Empties && d.listUnread() != "": // what was known holds until then
		d.block(listNotKnown(d.listUnread()))
		return m.Removal.Step
	case !d.emptied(m):
		d.empties(m)
		return v1alpha1.RemovalEmptying
	case q.Removing && !q.Deleted && m.Removal.Step == v1alpha1.RemovalReplaced && d.mayBegin(m):
		now := d.stamp()
		d.status.LastRemovalTime = &now
		return v1alpha1.RemovalRemoving
	case !q.Removing:
		d.block(awaitsRequest(m.ID, q.Name, d.Set.Namespace))
	}
	return v1alpha1.RemovalReplaced
}

// dispensable reports whether a member's group has as many members that do their work as it is to have, without those that are marked. Without a list, which the rules
// of a role go by, they do it now, but where the marked one does not either. One that never did its work is dispensable in any case. A list that is changed for one member is not changed for another at the same time.
func (d *decision) dispensable(m *v1alpha1.SetMember) bool {
	g := d.group(m.Group)
	switch {
	case joining(m):
		return true
	case g == nil, g.PerNode != nil, d.leavesFirst(m):
		return true
	case d.Kind.Lists && len(d.counted(m.Group, joining)) > 0:
		return false
	}
	return len(d.counted(m.Group, func(o *v1alpha1.SetMember) bool { return whole(o) && (d.Kind.Lists || !d.works(m) || d.works(o)) })) >= int(d.wanted(g.MemberGroup))
}

// lostBefore is a marked member that is lost, and that has to leave the list before a voter of which all is there: while it is on the list no other voter is taken off
// it, and members leave it one at a time; "": there is none.
func (d *decision) lostBefore(m *v1alpha1.SetMember) string {
	if e := d.entry(m); !d.untouched(m) || e == nil || !e.Whole || d.leavesFirst(m) {
		return ""
	}
	at := slices.IndexFunc(d.status.Members, func(o v1alpha1.SetMember) bool { return !leaving(&o) && d.requestFor(&o) != nil && d.leavesFirst(&o) })
	if at < 0 {
		return ""
	}
	return d.status.Members[at].ID
}

// leavesFirst reports whether a member that is lost leaves before another is taken in, since its system takes in none while it is on the list. What it asks for
// then, and its role's rules, keep it from costing more. One that does not answer for a moment is not lost: its pod is Ready. One that was taken in and has not started has the list of all.
func (d *decision) leavesFirst(m *v1alpha1.SetMember) bool {
	if !d.Kind.LostFirst || d.listUnread() != "" || slices.ContainsFunc(d.List.Entries, func(e Entry) bool { return e.Name == "" }) {
		return false
	}
	e, p := d.entry(m), d.pod(m.ID)
	return e != nil && e.Whole && !e.Healthy && (p == nil || p.Terminating || !p.Ready)
}
