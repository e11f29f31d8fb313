package memberset

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// carryOut does what a decision says, as an apiserver and a system would, and reports whether that has changed anything. What it does not know changes nothing.
func (r *rehearsal) carryOut(actions []Action) bool {
	changed := false
	for i := range actions {
		changed = r.do(&actions[i]) || changed
	}
	return changed
}

func (r *rehearsal) do(a *Action) bool {
	switch a.Kind {
	case MakePolicy:
		r.in.Policy = &Policy{UID: r.uid(), Ours: true, Spec: a.Policy.Spec, Permits: r.permits()}
	case ChangePolicy:
		r.in.Policy.Spec = a.Policy.Spec
	case MakeService:
		r.in.Services = append(r.in.Services, Service{Object: Object{Name: a.Service.Name, UID: r.uid(), Member: a.Member, Ours: true}, IP: r.address()})
	case MakeClaim:
		r.makeClaim(a)
	case MakePod:
		r.makePod(a)
	case Mark:
		return r.mark(a)
	case Unmark:
		for i := range r.in.Requests {
			r.in.Requests[i].Deleted = r.in.Requests[i].Deleted || r.in.Requests[i].UID == a.UID
		}
	case DeletePod, EvictPod, KeepPod, RelabelPod:
		return r.changePod(a)
	case TryPod: // it would be accepted
		return false
	case Admit, Expel:
		return r.changeList(a)
	case MakeFile, ChangeFile:
		r.keepFile(a)
	case Form, Empty, Refill, Maintain, EndMaintenance:
		return r.ask(a)
	case RetainVolume:
		for i := range r.in.Claims {
			r.in.Claims[i].Retained = r.in.Claims[i].Retained || r.in.Claims[i].Volume == a.Name
		}
	case DeleteClaim:
		r.in.Claims = slices.DeleteFunc(r.in.Claims, func(c Claim) bool { return c.UID == a.UID })
	case DeleteService:
		r.in.Services = slices.DeleteFunc(r.in.Services, func(s Service) bool { return s.UID == a.UID })
	default:
		return false
	}
	return true
}

// permits are the UIDs of the requests that let their members go.
func (r *rehearsal) permits() []types.UID {
	var all []types.UID
	for i := range r.in.Requests {
		if q := &r.in.Requests[i]; q.Removing && !q.Over {
			all = append(all, q.UID)
		}
	}
	return all
}

func (r *rehearsal) makeClaim(a *Action) {
	r.storage[a.Claim.Name] = &a.Claim.Spec
	r.in.Claims = append(r.in.Claims, Claim{
		Object: Object{Name: a.Claim.Name, UID: r.uid(), Member: a.Member, Ours: true}, Made: a.Claim.Annotations[TemplateHashAnnotation],
	})
}

// makePod makes a pod that is Ready at once: where its member was before, or else in a zone of its own.
func (r *rehearsal) makePod(a *Action) {
	m := r.in.member(a.Member)
	pinned := false
	r.in.Pods = append(r.in.Pods, Pod{
		Object: Object{Name: a.Pod.Name, UID: r.uid(), Member: a.Member, Ours: true}, Made: a.Pod.Annotations[TemplateHashAnnotation], Ready: true,
		Node: m.Node, Zone: m.Zone, OnEviction: a.Pod.Annotations[v1alpha1.OnEvictionAnnotation], Pinned: &pinned, Labels: a.Pod.Labels, Annotations: a.Pod.Annotations,
		Spec: &a.Pod.Spec,
	})
	r.place(&r.in.Pods[len(r.in.Pods)-1])
	for i := range r.in.List.Entries {
		if e := &r.in.List.Entries[i]; r.of(e, m) {
			e.Name, e.Healthy = m.ID, true
		}
	}
	r.formList()
}

func (r *rehearsal) mark(a *Action) bool {
	if slices.ContainsFunc(r.in.Requests, func(q Request) bool { return q.Name == a.Request.Name && !q.Over }) {
		return false
	}
	r.in.Requests = append(r.in.Requests, Request{Name: a.Request.Name, UID: r.uid(), Role: a.Request.Spec.Member.Role, Member: a.Member, Own: true})
	return true
}

// changePod reports whether there is such a pod that was not so already.
func (r *rehearsal) changePod(a *Action) bool {
	at := slices.IndexFunc(r.in.Pods, func(p Pod) bool { return p.UID == a.UID })
	if at < 0 {
		return false
	}
	p := &r.in.Pods[at]
	switch a.Kind {
	case DeletePod:
		p.Terminating = true
	case EvictPod, KeepPod:
		p.Asked = a.Kind == EvictPod
	default:
		p.Labels, p.Annotations = maps.Clone(p.Labels), maps.Clone(p.Annotations)
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		maps.Copy(p.Annotations, a.Annotations)
		p.OnEviction = p.Annotations[v1alpha1.OnEvictionAnnotation]
	}
	return true
}

// assumeList has the system's list, which a plan does not read, say what the status says: each member that has joined is on it with its whole part.
func (r *rehearsal) assumeList() {
	if !r.in.Kind.Lists {
		return
	}
	r.in.List = Listing{Unread: "no member has a pod"}
	formed := r.in.Set.Status.Formed
	if formed == nil {
		r.formList()
		return
	}
	r.in.List = Listing{Cluster: formed.Cluster}
	for i := range r.in.Set.Status.Members {
		m := &r.in.Set.Status.Members[i]
		at := slices.IndexFunc(r.in.Pods, func(p Pod) bool { return p.Name == m.ID && p.Ours })
		if whole(m) || at >= 0 {
			r.enter(m, at >= 0 && r.in.Pods[at].Ready)
		}
	}
}

// formList has the first members form their system once all of them have a pod.
func (r *rehearsal) formList() {
	if !r.in.Kind.Lists || r.in.List.Unread == "" || len(r.in.Set.Status.Members) == 0 {
		return
	}
	members := r.in.Set.Status.Members
	if slices.ContainsFunc(members, func(m v1alpha1.SetMember) bool {
		return m.First && !slices.ContainsFunc(r.in.Pods, func(p Pod) bool { return p.Name == m.ID && p.Ours })
	}) {
		return
	}
	r.in.List = Listing{Cluster: "plan"}
	for i := range members {
		r.enter(&members[i], true)
	}
}

func (r *rehearsal) enter(m *v1alpha1.SetMember, healthy bool) {
	e := Entry{Name: m.ID, Whole: whole(m) || r.in.Set.Status.Formed == nil, Healthy: healthy}
	e.ID, e.Addresses = string(r.uid()), r.addresses(m)
	r.in.List.Entries = append(r.in.List.Entries, e)
}

// changeList reports whether the list has changed.
func (r *rehearsal) changeList(a *Action) bool {
	if a.Kind == Expel {
		before := len(r.in.List.Entries)
		r.in.List.Entries = slices.DeleteFunc(slices.Clone(r.in.List.Entries), func(e Entry) bool { return e.ID == a.Entry.ID })
		return len(r.in.List.Entries) < before
	}
	at := slices.IndexFunc(r.in.List.Entries, func(e Entry) bool { return slices.Equal(e.Addresses, a.Addresses) })
	if at >= 0 {
		e := &r.in.List.Entries[at]
		before := e.Whole
		e.Whole = e.Name != ""
		return e.Whole != before
	}
	e := Entry{Healthy: true}
	e.ID, e.Addresses = string(r.uid()), a.Addresses
	r.in.List.Entries = append(r.in.List.Entries, e)
	return true
}

func (r *rehearsal) of(e *Entry, m *v1alpha1.SetMember) bool {
	return slices.Equal(e.Addresses, r.addresses(m))
}

// addresses are where other members reach one.
func (r *rehearsal) addresses(m *v1alpha1.SetMember) []string {
	groups, _ := groupsOf(r.in.Set, &r.in.Kind)
	d := decision{Input: &r.in, groups: groups}
	return d.addresses(m)
}
