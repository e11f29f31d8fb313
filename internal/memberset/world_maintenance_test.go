package memberset

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// zoneTime is for how many looks a zone is under maintenance until that ends by itself.
const zoneTime = 40

// upkeep is what a system knows of zones under maintenance.
type upkeep struct {
	zone  string
	left  int                  // looks until it ends by itself
	other bool                 // another client has begun it
	away  map[string]types.UID // pods that went under maintenance of which no other does the work yet, by member
}

// maintaining is the kind whose members are emptied, or wait for by their zones.
func maintaining() Kind {
	kind := emptying
	kind.Maintains = func(*v1alpha1.MemberGroup) bool { return true }
	return kind
}

// maintain is what the system is asked for: it has one zone at a time.
func (w *world) maintain(a *Action) {
	if w.upkeep.zone == "" {
		w.upkeep.zone, w.upkeep.left, w.upkeep.other = a.Zone, zoneTime, false
	}
}

func (w *world) endMaintenance(a *Action) {
	for id := range w.upkeep.away {
		w.fail("the maintenance of zone %s ends, and no other pod of %s does its work", a.Zone, id)
	}
	if w.upkeep.zone == a.Zone {
		w.upkeep.zone = ""
	}
}

// another is a client that has a zone under maintenance, or ends that.
func (w *world) another(zone string) {
	w.upkeep.zone, w.upkeep.left, w.upkeep.other, w.upkeep.away = zone, zoneTime, zone != "", nil
}

// upkeeps has time pass for the zone under maintenance, and takes out whoever is back.
func (w *world) upkeeps() {
	if w.upkeep.left--; w.upkeep.left <= 0 {
		w.upkeep.zone, w.upkeep.away = "", nil
	}
	for id, uid := range w.upkeep.away {
		back := slices.ContainsFunc(w.in.Pods, func(p Pod) bool { return p.Name == id && p.UID != uid && w.runs(id) })
		if m := w.find(id); back || m == nil || leaving(m) {
			delete(w.upkeep.away, id)
		}
	}
}

// zoneKnown is the zone of a member that runs, as its system has it.
func (w *world) zoneKnown(id string) string {
	for i := range w.in.Pods {
		if p := &w.in.Pods[i]; p.Name == id && w.runs(id) {
			return p.Zone
		}
	}
	return ""
}

// maintained reports whether a pod may go by the rules of its role where it is made anew under maintenance.
func (w *world) maintained(p *Pod) bool {
	if w.in.Policy == nil || w.in.Policy.Spec.Members[0].Provider.MemberSet.Maintenance != v1alpha1.MaintenanceManaged {
		return true
	}
	return !w.runs(p.Name) || w.upkeep.zone == p.Zone && w.upkeep.left > 5
}

// goesMaintained notes that a pod goes.
func (w *world) goesMaintained(p *Pod) {
	m := w.in.Set.Status.Maintenance
	if w.upkeep.zone != p.Zone || w.upkeep.other || m == nil || !slices.Contains(m.Members, v1alpha1.MaintainedMember{ID: p.Name, PodUID: p.UID}) {
		return
	}
	if w.upkeep.away == nil {
		w.upkeep.away = map[string]types.UID{}
	}
	w.upkeep.away[p.Name] = p.UID
}

// ipsKnown is where a member that runs is, as its system has it.
func (w *world) ipsKnown(id string) []string {
	at := slices.IndexFunc(w.in.Pods, func(p Pod) bool { return p.Name == id && w.runs(id) })
	switch {
	case at < 0:
		return nil
	case w.at != "":
		return []string{w.at}
	}
	return []string{w.in.Pods[at].IP}
}
