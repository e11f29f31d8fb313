package memberset

import (
	"fmt"
	"slices"

	"usher.sh/usher/api/v1alpha1"
)

// contents is a system whose members are emptied before they go, as a plan carries it along: what is asked of it is done at once.
type contents struct {
	begun, formed     bool            // formed: in the plan
	emptied, excluded map[string]bool // by id
	zone              string          // under maintenance
}

// assumeContents has the system, which a plan does not ask, be as the status says. What was emptied is emptied again.
func (r *rehearsal) assumeContents() {
	r.contents = contents{begun: r.in.Set.Status.Formed != nil, emptied: map[string]bool{}, excluded: map[string]bool{}}
	if m := r.in.Set.Status.Maintenance; m != nil {
		r.contents.zone = m.Zone
	}
	for i := range r.in.Set.Status.Members {
		m := &r.in.Set.Status.Members[i]
		r.contents.excluded[m.ID] = m.Removal != nil && (maybeExcluded(m.Removal) || m.Removal.Step == v1alpha1.RemovalRemoved)
	}
}

// report has the list be what the system says of its members.
func (r *rehearsal) report() {
	if !r.in.Kind.Empties {
		return
	}
	r.in.List = Listing{Unread: "the first members have not begun it yet", Formable: true}
	if !r.contents.begun {
		return
	}
	status := &r.in.Set.Status
	r.in.List = Listing{Cluster: r.clusterOf(status), File: status.ClusterFile, Maintenance: Maintenance{Zone: r.contents.zone}}
	for i := range status.Members {
		m := &status.Members[i]
		processes := r.processes(m)
		r.in.List.Entries = append(r.in.List.Entries, Entry{
			Name: m.ID, Processes: processes, Healthy: processes > 0, Whole: processes > 0 && !r.contents.excluded[m.ID], Zone: m.Zone,
			Empty: r.contents.emptied[m.ID], Excluded: r.contents.excluded[m.ID],
		})
	}
}

func (r *rehearsal) clusterOf(status *v1alpha1.MemberSetStatus) string {
	if status.Formed != nil {
		return status.Formed.Cluster
	}
	return r.in.Kind.File.Cluster(status.ClusterFile)
}

// processes is how many of a member do their work: all where its pod is Ready, and has not been made to start none.
func (r *rehearsal) processes(m *v1alpha1.SetMember) int {
	at := slices.IndexFunc(r.in.Pods, func(p Pod) bool { return p.Name == m.ID && p.Ours && p.Ready && !p.Terminating })
	if at < 0 {
		return 0
	}
	if _, empty := r.in.Pods[at].Annotations[v1alpha1.EmptyConfigurationAnnotation]; empty && r.in.Kind.Configured {
		return 0
	}
	return int(max(m.Shape.MembersPerPod, 1))
}

// ask does what a system is asked for whose members are emptied, and reports whether that has changed anything.
func (r *rehearsal) ask(a *Action) bool {
	c := &r.contents
	switch a.Kind {
	case Form:
		changed := !c.begun
		c.begun, c.formed = true, true
		return changed
	case Empty:
		changed := !c.emptied[a.Member]
		c.emptied[a.Member], c.excluded[a.Member] = true, true
		return changed
	case Refill:
		changed := c.excluded[a.Member]
		delete(c.emptied, a.Member)
		delete(c.excluded, a.Member)
		return changed
	case Maintain, EndMaintenance:
		zone := ""
		if a.Kind == Maintain {
			zone = a.Zone
		}
		changed := c.zone != zone
		c.zone = zone
		return changed
	default:
		return false
	}
}

// keepFile makes or changes the ConfigMap by which the system is found.
func (r *rehearsal) keepFile(a *Action) {
	key := r.in.Kind.File.Key(&r.in.Set.Spec.System)
	r.in.File = &File{Object: Object{Name: key.Name, UID: r.uid(), Ours: true}, Content: a.ConfigMap.Data[key.Key]}
}

// place gives a pod that was made an address, and a zone of its own where its member was in none yet: the first members begin a system that is found by a file
// once they have both.
func (r *rehearsal) place(p *Pod) {
	if r.in.Kind.File == nil {
		return
	}
	p.IP = r.address()
	if p.Zone == "" {
		p.Zone = "plan-" + p.Name
	}
}

// maintained reports whether a pod that is evicted to be made anew may go as far as its zone is concerned.
func (r *rehearsal) maintained(p *Pod) bool {
	m := r.in.member(p.Name)
	if m == nil || m.Zone == "" || len(m.Shape.Claims) == 0 {
		return true
	}
	at := slices.IndexFunc(r.in.Set.Spec.Groups, func(g v1alpha1.MemberGroup) bool { return g.Name == m.Group })
	return at < 0 || !maintains(r.in.Set, &r.in.Kind, &r.in.Set.Spec.Groups[at]) || r.contents.zone == m.Zone
}

// address is an IP that no pod and no Service has: one of the range for benchmarks.
func (r *rehearsal) address() string {
	r.serial++
	return fmt.Sprintf("198.18.%d.%d", r.serial/250%250, r.serial%250)
}
