package memberset

import (
	"cmp"
	"slices"

	"usher.sh/usher/api/v1alpha1"
)

// update has what was changed in a group reach its members: some are replaced, others' pods are made anew, and labels change in place.
func (d *decision) update() {
	d.foreign()
	d.refuseEmpty()
	var recreated []*v1alpha1.SetMember
	var replaced []toReplace
	for i := range d.status.Members {
		m := &d.status.Members[i]
		g := d.group(m.Group)
		if g == nil || leaving(m) {
			continue
		}
		p := d.pod(m.ID)
		if p != nil && !p.Terminating {
			d.relabel(g, m, p)
		}
		why := d.replaced(g, m, p)
		d.unmarkCurrent(m, why)
		switch {
		case why != "":
			replaced = append(replaced, toReplace{g, m, why})
			d.keepPod(m, p)
		case m.Removal == nil && p != nil && d.outdated(g, m, p) && d.recreates(g, m, p):
			recreated = append(recreated, m)
		default:
			d.keepPod(m, p)
		}
	}
	d.replace(replaced)
	d.recreate(recreated)
}

// toReplace is a member that is to be replaced, and why.
type toReplace struct {
	group  *group
	member *v1alpha1.SetMember
	why    string
}

// replace has members be replaced, those that do not do their work before others, which go only once enough of their group do: where few may go at a time, each would wait
// for the other.
func (d *decision) replace(members []toReplace) {
	slices.SortStableFunc(members, func(a, b toReplace) int { return cmp.Compare(d.health(a.member), d.health(b.member)) })
	for _, r := range members {
		d.markOutdated(r.group, r.member, r.why)
	}
}

// keepPod takes back that the set has asked for the eviction of a pod.
func (d *decision) keepPod(m *v1alpha1.SetMember, p *Pod) {
	if p != nil && p.Asked && !p.Terminating {
		d.act(Action{Kind: KeepPod, Member: m.ID, Name: p.Name, UID: p.UID})
	}
}

// strategy is how a changed template reaches the members of a group. Before the system is formed none is replaced, and what would replace them has their pods made anew.
func (d *decision) strategy(g *group) v1alpha1.MemberUpdateType {
	says := cmp.Or(g.UpdateStrategy.Type, d.Set.Spec.UpdateStrategy.Type)
	if says == "" && slices.Contains(d.Kind.Replaced, g.Role) {
		says = v1alpha1.UpdateReplace
	}
	if says == "" || says == v1alpha1.UpdateReplace && d.status.Formed == nil {
		return v1alpha1.UpdateRecreate
	}
	return says
}

// outdated reports whether a pod was made of another template than its group has. One that does not say what it was made of is taken for what it should be: what
// takes that off would have it made anew without end.
func (d *decision) outdated(g *group, m *v1alpha1.SetMember, p *Pod) bool {
	return p.Made != "" && p.Made != d.madeOf(g, m)
}

// recreates reports whether a pod that is outdated, and whose member is not replaced for it, is made anew. One that is to crash, or not any more, is in any case, also
// where it is of another template. What replaces members of another template leaves those whose parameters alone have changed: they are restarted with these (source
// 002, knobs).
func (d *decision) recreates(g *group, m *v1alpha1.SetMember, p *Pod) bool {
	return d.strategy(g) != v1alpha1.UpdateOnDelete || debuggingOf(p.Made) != debuggingOf(d.madeOf(g, m))
}

// updated reports whether a member is as its group says.
func (d *decision) updated(g *group, m *v1alpha1.SetMember) bool {
	p := d.pod(m.ID)
	return d.misshapen(g, m) == "" && (p == nil || !d.outdated(g, m, p))
}

// replaced says why a member is to be replaced to be as its group says; "": it is not.
func (d *decision) replaced(g *group, m *v1alpha1.SetMember, p *Pod) string {
	if why := d.misshapen(g, m); why != "" {
		return why
	}
	if p == nil || p.Made == "" || templateOf(p.Made) == g.hash {
		return ""
	}
	switch d.strategy(g) {
	case v1alpha1.UpdateReplace:
		return "its pod is of another template"
	case v1alpha1.UpdateRecreate:
		return d.alsoReplaced(g, p)
	case v1alpha1.UpdateOnDelete:
	}
	return ""
}

// alsoReplaced says which change of the template is one that spec.updateStrategy.replace.alsoOn names; "": none.
func (d *decision) alsoReplaced(g *group, p *Pod) string {
	if p.Spec == nil || d.status.Formed == nil {
		return ""
	}
	for _, change := range d.Set.Spec.UpdateStrategy.Replace.AlsoOn {
		switch {
		case change == v1alpha1.ResourceIncrease && requestsMore(&g.pod.Spec, p.Spec):
			return "its pod requests less than its template does"
		case change == v1alpha1.FileOwnership && ownsOtherwise(&g.pod.Spec, p.Spec):
			return "its pod's processes own files as others than its template says"
		}
	}
	return ""
}

// unmarkCurrent takes back what the set has asked for because of what its group said, once the group says otherwise.
func (d *decision) unmarkCurrent(m *v1alpha1.SetMember, why string) {
	if why == "" {
		d.unmarkNamed(m, outdatedRequest(m.ID))
	}
}

// unmarkNamed takes back the set's own request of the name, for a member of which nothing is removed yet.
func (d *decision) unmarkNamed(m *v1alpha1.SetMember, name string) {
	for _, i := range d.requestsOf[m.ID] {
		if q := &d.Requests[i]; q.Own && !q.Over && !q.Deleted && q.Name == name {
			d.act(Action{Kind: Unmark, Member: m.ID, Name: q.Name, UID: q.UID})
		}
	}
}

// markOutdated has a member be replaced, as far as there may be more of that at once.
func (d *decision) markOutdated(g *group, m *v1alpha1.SetMember, why string) {
	switch {
	case d.status.Formed == nil:
		d.block(changedBeforeFormed(m.ID, why, d.Set))
		return
	case m.Removal != nil, d.asked(m):
		return
	}
	if most := d.Set.Spec.UpdateStrategy.Replace.MaxInFlight; most != nil && d.inFlight() >= int(*most) {
		d.block(awaitsReplacements(m.ID, why, int(*most)))
		return
	}
	d.act(Action{Kind: Mark, Member: m.ID, Request: d.request(m, outdatedRequest(m.ID), g.Role)})
}

// asked reports whether a request for the member is there, whatever has become of it, that the set would make.
func (d *decision) asked(m *v1alpha1.SetMember) bool {
	return slices.ContainsFunc(d.requestsOf[m.ID], func(i int) bool { return !d.Requests[i].Over && d.Requests[i].Name == outdatedRequest(m.ID) })
}

// inFlight is how many members are marked, whoever marked them, and are there beside those that take their place: for as many more there has to be room.
func (d *decision) inFlight() (n int) {
	for i := range d.status.Members {
		if r := d.status.Members[i].Removal; r != nil && r.Step != v1alpha1.RemovalRemoved && r.Step != v1alpha1.RemovalRefilling {
			n++
		}
	}
	for i := range d.actions {
		if d.actions[i].Kind == Mark {
			n++
		}
	}
	return n
}

// relabel gives a pod the labels and annotations that its template has today. What the template has no more stays until the pod is made anew.
func (d *decision) relabel(g *group, m *v1alpha1.SetMember, p *Pod) {
	if made := p.Annotations[LabelsHashAnnotation]; made == "" || made == g.labels {
		return
	}
	d.act(Action{
		Kind: RelabelPod, Member: m.ID, Name: p.Name, UID: p.UID, Version: p.Version, Labels: d.labels(m, g.pod.Labels), Annotations: d.annotations(g),
	})
}
