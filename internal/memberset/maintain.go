package memberset

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// maintenanceTimeout is the API's default.
const maintenanceTimeout = 10 * time.Minute

// Maintenance is what a system says of its zone under maintenance.
type Maintenance struct {
	// Zone is the one that is; "": none is.
	Zone string
}

// maintains reports whether the pods of a group are made anew while their zone is under maintenance.
func maintains(set *v1alpha1.MemberSet, kind *Kind, g *v1alpha1.MemberGroup) bool {
	return kind.Maintains != nil && kind.Maintains(g) && set.Spec.UpdateStrategy.Recreate.Maintenance == v1alpha1.MaintenanceManaged
}

// maintain has the system keep the zone of pods under maintenance that are about to go and to be made anew with what is on their volumes, one zone at a time, and
// end that once they are back (source 002, "Only Pods that are updated"). Who waits for it is written down before the system is asked.
func (d *decision) maintain() {
	going := d.goingMaintained()
	if d.Kind.Maintains == nil || d.status.Formed == nil || d.status.Maintenance == nil && len(going) == 0 {
		return
	}
	if why := d.listUnread(); why != "" {
		d.block(listNotKnown(why))
		return
	}
	if d.status.Maintenance == nil && !d.beginMaintenance(going) {
		return
	}
	d.noteMaintained(going)
	switch m, zone := d.status.Maintenance, d.List.Maintenance.Zone; {
	case zone == m.Zone && len(m.Members) == 0:
		d.act(Action{Kind: EndMaintenance, Zone: zone})
		d.block(maintenanceEnds(zone))
	case zone == m.Zone:
		d.block(zoneMaintained(m))
	case len(m.Members) == 0:
		d.status.Maintenance = nil
	case zone != "":
		d.block(otherMaintenance(zone, m.Members[0].ID))
	case slices.ContainsFunc(m.Members, d.stillGoes):
		d.act(Action{Kind: Maintain, Zone: m.Zone, Timeout: d.maintenanceTimeout()})
		d.block(maintenanceBegins(m.Zone))
	default: // its time is over, and there is none left for which it would begin again
		d.status.Maintenance = nil
	}
}

func (d *decision) maintenanceTimeout() time.Duration {
	if timeout := d.Set.Spec.UpdateStrategy.Recreate.MaintenanceTimeout; timeout != nil {
		return timeout.Duration
	}
	return maintenanceTimeout
}

// goingMaintained are the members whose pods are evicted and made anew under maintenance, by their zones: those of which the system says where they are. One that
// leads to the system hands that over before: that costs a recovery, which shortens maintenances.
func (d *decision) goingMaintained() []*v1alpha1.SetMember {
	var all []*v1alpha1.SetMember
	for i := range d.status.Members {
		m := &d.status.Members[i]
		g, p := d.group(m.Group), d.pod(m.ID)
		stays := m.Removal == nil || m.Removal.Step == v1alpha1.RemovalGrowing // it may be long until another takes its place
		if g == nil || !maintains(d.Set, &d.Kind, g.MemberGroup) || len(m.Shape.Claims) == 0 || !whole(m) || !stays ||
			p == nil || p.Terminating || p.Finished || !p.Asked && !p.Wanted || d.systemZone(m) == "" || d.entry(m).Leads {
			continue
		}
		if says, known := d.onEviction(p); known && !replacedOnEviction(says, p) {
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b *v1alpha1.SetMember) int {
		return cmp.Or(strings.Compare(d.systemZone(a), d.systemZone(b)), strings.Compare(a.ID, b.ID))
	})
	return all
}

// systemZone is the zone of a member in its system's own words; "": it does not say.
func (d *decision) systemZone(m *v1alpha1.SetMember) string {
	if e := d.entry(m); e != nil {
		return e.Zone
	}
	return ""
}

// beginMaintenance writes down the next zone, and reports whether there is one. What another client has under maintenance is its own: pods there may go, and those
// elsewhere wait for its end.
func (d *decision) beginMaintenance(going []*v1alpha1.SetMember) bool {
	if other := d.List.Maintenance.Zone; other != "" {
		if at := slices.IndexFunc(going, func(m *v1alpha1.SetMember) bool { return d.systemZone(m) != other }); at >= 0 {
			d.block(otherMaintenance(other, going[at].ID))
		}
		return false
	}
	d.status.Maintenance = &v1alpha1.ZoneMaintenance{Zone: d.systemZone(going[0]), StartTime: d.stamp()}
	return true
}

// noteMaintained takes over who waits for the maintenance: those that are about to go in its zone, until another pod does their work.
func (d *decision) noteMaintained(going []*v1alpha1.SetMember) {
	before := d.status.Maintenance.Members
	d.status.Maintenance.Members = nil
	for i := range before {
		if d.absent(&before[i], going) {
			d.status.Maintenance.Members = append(d.status.Maintenance.Members, before[i])
		}
	}
	for _, m := range going {
		if d.systemZone(m) != d.status.Maintenance.Zone {
			continue
		}
		one := v1alpha1.MaintainedMember{ID: m.ID, PodUID: d.pod(m.ID).UID}
		d.status.Maintenance.Members = slices.DeleteFunc(d.status.Maintenance.Members, func(o v1alpha1.MaintainedMember) bool { return o.ID == one.ID })
		d.status.Maintenance.Members = append(d.status.Maintenance.Members, one)
	}
	slices.SortFunc(d.status.Maintenance.Members, func(a, b v1alpha1.MaintainedMember) int { return strings.Compare(a.ID, b.ID) })
}

// absent reports whether the pod that a member had goes, or is gone and no other does its work. One whose eviction was withdrawn, and one that leaves for good, is not waited for.
func (d *decision) absent(one *v1alpha1.MaintainedMember, going []*v1alpha1.SetMember) bool {
	m, p := d.member(one.ID), d.pod(one.ID)
	switch {
	case m == nil || leaving(m):
		return false
	case p == nil:
		return true
	case p.UID == one.PodUID:
		return p.Terminating || slices.Contains(going, m)
	}
	return !p.Ready || !d.works(m) || !d.worksIn(m, p)
}

// clocksApart is by how much the clocks of a system and of Kubernetes may differ.
const clocksApart = 30 * time.Second

// worksIn reports whether the processes of a member are those of a pod: others, of a pod that is gone, may be in what the system says for a moment. At the IP of a
// Service their age tells.
func (d *decision) worksIn(m *v1alpha1.SetMember, p *Pod) bool {
	e := d.entry(m)
	if hasService(m) {
		return e.Uptime > 0 && e.Uptime <= d.Now.Sub(p.Created)+clocksApart
	}
	return !slices.ContainsFunc(e.IPs, func(at string) bool { return at != p.IP })
}

// stillGoes reports whether the pod that a member had has not gone yet.
func (d *decision) stillGoes(one v1alpha1.MaintainedMember) bool {
	p := d.pod(one.ID)
	return p != nil && p.UID == one.PodUID && !p.Terminating
}
