package memberset

import (
	"cmp"
	"slices"
	"strings"

	"usher.sh/usher/api/v1alpha1"
)

// mostTried is for how many pods whose evictions are asked for already each look has the apiserver say whether they can be made anew.
const mostTried = 10

// recreate has pods that are outdated go, as many as their batch lets. Each is made anew under its name, and goes only while the apiserver would accept that. One of a
// member that never did its work is deleted; every other one, and one of which that is not known, is evicted, by the rules of its role.
func (d *decision) recreate(members []*v1alpha1.SetMember) {
	members = slices.DeleteFunc(members, func(m *v1alpha1.SetMember) bool {
		p := d.pod(m.ID)
		switch {
		case p.Terminating, d.deletes(m.ID):
			return true
		case !joining(m), d.mayWork(m, p):
			return d.stranded(m, p)
		case p.Ready && d.mayHaveFormed():
			d.block(awaitsFormed(m.ID))
		default:
			d.act(Action{Kind: DeletePod, Member: m.ID, Name: p.Name, UID: p.UID, Version: p.Version})
		}
		return true
	})
	if len(members) == 0 {
		return
	}
	if !d.guarded() {
		d.block(policyAwaited(d.Set.Name))
		return
	}
	chosen, awaits, tried := d.batch(members), d.awaitsOthers(), 0
	for _, m := range members {
		switch p := d.pod(m.ID); {
		case p.Asked:
			if tried++; tried <= mostTried {
				d.act(Action{Kind: TryPod, Member: m.ID, Name: p.Name, UID: p.UID, Pod: d.newPod(d.group(m.Group), m)})
			}
			d.block(awaitsEviction(m.ID, p, d.Set.Namespace))
		case p.Unasked != "":
			d.block(Unread("whether the eviction of pod "+m.ID+" is asked for", p.Unasked, "see that usher is installed whole: usher install"))
		case slices.Contains(chosen, m):
			d.act(Action{Kind: EvictPod, Member: m.ID, Name: p.Name, UID: p.UID, Pod: d.newPod(d.group(m.Group), m)})
			d.block(awaitsEviction(m.ID, p, d.Set.Namespace))
		case d.Set.Spec.UpdateStrategy.Recreate.Batch == v1alpha1.BatchNone:
			d.block(batchNone(m.ID))
		default:
			d.block(awaits(m.ID))
		}
	}
}

// awaitsOthers returns what there is to say of each pod that goes once others are there. Of one that is kept from starting it says by what: that is not waited for.
func (d *decision) awaitsOthers() func(id string) Blocker {
	unavailable := d.unavailable()
	for _, other := range unavailable {
		if commands := d.started(other); len(commands) > 0 {
			return func(id string) Blocker { return awaitsDebugged(id, other.ID, commands) }
		}
	}
	return func(id string) Blocker { return awaitsBatch(id, unavailable) }
}

// stranded keeps a pod that could be made anew on its node alone, which is cordoned, and reports whether it is one: its eviction would not come, and others would wait for it.
func (d *decision) stranded(m *v1alpha1.SetMember, p *Pod) bool {
	says, known := d.onEviction(p)
	if !known || says != v1alpha1.PodIsReplacedWhereCordoned || !p.Cordoned {
		return false
	}
	d.keepPod(m, p)
	d.block(awaitsUncordoned(m.ID, p.Node, d.Set.Namespace))
	return true
}

// mayWork reports whether a member that joins may have its whole part in a formed system by now: the list says so, or is not known. Nothing of it runs before its pod is
// on a node.
func (d *decision) mayWork(m *v1alpha1.SetMember, p *Pod) bool {
	if d.status.Formed == nil || p.Node == "" || !d.Kind.Lists && !d.Kind.Empties {
		return false
	}
	e := d.entry(m)
	return d.listUnread() != "" || e != nil && e.Whole
}

// mayHaveFormed reports whether the first members may have formed a system of which that is not known yet. Where they do it only once they are asked to, they have not
// before.
func (d *decision) mayHaveFormed() bool {
	return d.status.Formed == nil && (d.Kind.File == nil || d.status.FormRequestTime != nil)
}

// deletes reports whether the pod of a member is deleted by this decision.
func (d *decision) deletes(id string) bool {
	return slices.ContainsFunc(d.actions, func(a Action) bool { return a.Kind == DeletePod && a.Member == id })
}

// guarded reports whether the set's policy is there: without it the rules of roles hold no pod that is evicted.
func (d *decision) guarded() bool { return d.Policy != nil && d.Policy.Ours && !d.Policy.Deleted }

// batch is which of the members go now: of those that are unavailable already any, and others as long as fewer zones have such members than may (source 002,
// maxZonesWithUnavailablePods). Those of the zone under maintenance come first: others of the system may go only once that has ended.
func (d *decision) batch(members []*v1alpha1.SetMember) []*v1alpha1.SetMember {
	terms := &d.Set.Spec.UpdateStrategy.Recreate
	slices.SortStableFunc(members, func(a, b *v1alpha1.SetMember) int {
		return cmp.Or(-cmp.Compare(d.down(a), d.down(b)), -compare(d.isMaintained(a), d.isMaintained(b)), cmp.Compare(zoneOf(a), zoneOf(b)), strings.Compare(a.ID, b.ID))
	})
	unavailable := d.unavailable()
	zones := zonesOf(unavailable)
	open := func(m *v1alpha1.SetMember) bool {
		return slices.Contains(zones, zoneOf(m)) || terms.MaxUnavailableZones == nil && (terms.Batch == v1alpha1.BatchAll || len(zones) == 0) ||
			terms.MaxUnavailableZones != nil && len(zones) < int(*terms.MaxUnavailableZones)
	}
	members = slices.DeleteFunc(slices.Clone(members), func(m *v1alpha1.SetMember) bool { return !open(m) })
	if len(members) == 0 {
		return nil
	}
	switch terms.Batch {
	case v1alpha1.BatchNone:
		return nil
	case v1alpha1.BatchMember:
		most := 1
		if terms.MaxUnavailableZones != nil {
			most = int(*terms.MaxUnavailableZones)
		}
		if d.down(members[0]) == 0 && len(unavailable) >= most {
			return nil
		}
		return members[:1]
	case v1alpha1.BatchZone, "":
		zone := zoneOf(members[0])
		return slices.DeleteFunc(members, func(m *v1alpha1.SetMember) bool { return zoneOf(m) != zone })
	case v1alpha1.BatchAll:
		if terms.MaxUnavailableZones == nil {
			return members
		}
		return d.within(members, zones, int(*terms.MaxUnavailableZones))
	}
	return nil
}

// isMaintained reports whether the zone of a member is under maintenance, whoever has begun that.
func (d *decision) isMaintained(m *v1alpha1.SetMember) bool {
	zone := d.List.Maintenance.Zone
	return zone != "" && d.systemZone(m) == zone
}

// within are the members in no more zones than may have unavailable ones, of which some have already.
func (d *decision) within(members []*v1alpha1.SetMember, zones []string, most int) []*v1alpha1.SetMember {
	var all []*v1alpha1.SetMember
	for _, m := range members {
		if zone := zoneOf(m); !slices.Contains(zones, zone) {
			if len(zones) >= most {
				continue
			}
			zones = append(slices.Clone(zones), zone)
		}
		all = append(all, m)
	}
	return all
}

// unavailable are the members that did their work and do not now, or that are asked to go.
func (d *decision) unavailable() []*v1alpha1.SetMember {
	var all []*v1alpha1.SetMember
	for i := range d.status.Members {
		m := &d.status.Members[i]
		if p := d.pod(m.ID); whole(m) && !leaving(m) && (d.down(m) == 1 || p.Asked) {
			all = append(all, m)
		}
	}
	return all
}

// down is 1 where a member has no Ready pod, or lacks a process by what its system says.
func (d *decision) down(m *v1alpha1.SetMember) int {
	if p := d.pod(m.ID); p != nil && p.Ready && !p.Terminating && !p.Finished && !d.lacksProcess(m) {
		return 0
	}
	return 1
}

// lacksProcess reports whether fewer processes of a member do their work than its pod has, which may be Ready all the same: its template need not have a probe, and
// its configuration may start none. What the system does not say lacks nothing.
func (d *decision) lacksProcess(m *v1alpha1.SetMember) bool {
	if !d.Kind.Empties || d.listUnread() != "" {
		return false
	}
	e := d.entry(m)
	return e != nil && e.Processes < d.processes(m)
}

// zoneOf is a member's zone. One whose zone is not known is in one of its own.
func zoneOf(m *v1alpha1.SetMember) string { return cmp.Or(m.Zone, "member "+m.ID) }

func zonesOf(members []*v1alpha1.SetMember) []string {
	var zones []string
	for _, m := range members {
		zones = append(zones, zoneOf(m))
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}
