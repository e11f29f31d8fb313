package memberset

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

// fullAfter is for how many looks a member must not run until nothing is lost with it.
const fullAfter = 3

func (d *disk) empty() bool { return d.excluded && d.data == 0 }

// runs reports whether the process of a member does.
func (w *world) runs(id string) bool {
	return slices.ContainsFunc(w.in.Pods, func(p Pod) bool { return p.Name == id && p.Node != "" && !w.lost[p.Node] && !p.Finished && !broken(&p) })
}

// look is what the system says of the members, once there is one.
func (w *world) look() {
	if !w.in.Kind.Empties {
		return
	}
	w.in.List = Listing{Unread: "the database is not available", Formable: !w.begun && w.formable()}
	if !w.begun || w.mute {
		return
	}
	w.in.List = Listing{Cluster: "kv", File: w.newest(), Maintenance: Maintenance{Zone: w.upkeep.zone}}
	for _, ip := range w.leads {
		if !slices.ContainsFunc(w.in.Pods, func(p Pod) bool { return w.addressed(&p) == ip && w.runs(p.Name) }) {
			w.in.List.Away = append(w.in.List.Away, ip)
		}
	}
	for i := range w.in.Set.Status.Members {
		m := &w.in.Set.Status.Members[i]
		disk := w.diskOf(m.ID)
		runs := w.runs(m.ID)
		processes := 0
		if runs {
			processes = 1
		}
		w.in.List.Entries = append(w.in.List.Entries, Entry{
			Zone: w.zoneKnown(m.ID), Leads: w.leading == m.ID, Uptime: w.uptime, IPs: w.ipsKnown(m.ID), Name: m.ID, Processes: processes, Whole: runs && !disk.excluded && !disk.foreign, Healthy: runs, Excluded: disk.excluded, Empty: runs && disk.empty() || !runs && disk.lost >= fullAfter,
		})
	}
}

// addressed is where a pod is reached: at its Service where it has one.
func (w *world) addressed(p *Pod) string {
	if at := slices.IndexFunc(w.in.Services, func(s Service) bool { return s.Name == p.Name }); at >= 0 {
		return w.in.Services[at].IP
	}
	return p.IP
}

// disk is what a member has that is emptied.
type disk struct {
	data     int // what is still to be moved
	excluded bool
	foreign  bool // another client has excluded it
	lost     int  // for how many looks it has not run
}

func (w *world) diskOf(id string) *disk {
	if w.disks[id] == nil {
		w.disks[id] = &disk{}
	}
	return w.disks[id]
}

func (w *world) newest() string { return fmt.Sprintf("kv:%d@%s", w.file, strings.Join(w.leads, ",")) }

// broken reports whether a pod is of an image that cannot be pulled.
func broken(p *Pod) bool { return p.Spec != nil && p.Spec.Containers[0].Image == "broken" }

// serves is what /readyz says: a member that has no vote is not Ready.
func (w *world) serves(id string) bool {
	if !w.in.Kind.Lists {
		return true
	}
	for i := range w.in.List.Entries {
		if e := &w.in.List.Entries[i]; labelOf(e.Addresses[0]) == id {
			e.Name = id
			return e.Whole
		}
	}
	return false
}

// take has the processes of each pod that runs take the file that is in the ConfigMap, once: what they have they keep.
func (w *world) take() {
	for i := range w.in.Pods {
		if p := &w.in.Pods[i]; w.in.File != nil && w.in.File.Content != "" && w.taken[p.UID] == "" && w.runs(p.Name) {
			w.taken[p.UID] = w.in.File.Content
		}
	}
}

// formable reports whether all members run, have the file that is in the ConfigMap, and are at the addresses that it names.
func (w *world) formable() bool {
	if w.in.File == nil || w.in.File.Content == "" {
		return false
	}
	for i := range w.in.Set.Status.Members {
		id := w.in.Set.Status.Members[i].ID
		if !slices.ContainsFunc(w.in.Pods, func(p Pod) bool { return p.Name == id && w.runs(id) && w.taken[p.UID] == w.in.File.Content }) {
			return false
		}
	}
	return !slices.ContainsFunc(w.in.Kind.File.Addresses(w.in.File.Content), func(ip string) bool {
		return !slices.ContainsFunc(w.in.Pods, func(p Pod) bool { return w.addressed(&p) == ip && w.runs(p.Name) })
	})
}

// form is what the first members are asked for. It is refused where not all are there.
func (w *world) form() {
	if w.in.Set.Status.FormRequestTime == nil {
		w.fail("the first members are asked to form their system, and that is not written down")
	}
	if w.begun || !w.formable() {
		return
	}
	w.begun, w.first = true, w.in.File.Content
	w.leads = w.in.Kind.File.Addresses(w.first)
}

// isGivenUp reports whether those by whose addresses the first members were about to be asked to form the system are lost, and the set says how it is begun anew.
func (w *world) isGivenUp() bool {
	status := &w.in.Set.Status
	return !w.begun && status.Formed == nil && status.FormRequestTime != nil && slices.ContainsFunc(status.Blockers, func(b v1alpha1.ReplacementBlocker) bool {
		return strings.Contains(b.Remedy, "kubectl delete memberset kv")
	})
}

// checkFile fails where another file is chosen than that by which there is a system.
func (w *world) checkFile() {
	if w.begun && w.in.Kind.File != nil && w.in.Set.Status.Formed == nil && w.in.Set.Status.ClusterFile != w.first {
		w.fail("the system is formed by %q, and %q is chosen", w.first, w.in.Set.Status.ClusterFile)
	}
}

// choose has three that run lead to the system.
func (w *world) choose() {
	for i := range w.in.Pods {
		if p := &w.in.Pods[i]; w.runs(p.Name) && len(w.leads) < 3 {
			w.leads = append(w.leads, w.addressed(p))
		}
	}
}

// empty excludes a member, and moves no data before that was seen.
func (w *world) empty(id string) {
	if disk := w.diskOf(id); w.runs(id) {
		disk.excluded = true
	}
}

// distribute moves data off what is excluded, and to all others.
func (w *world) distribute() {
	if !w.begun {
		return
	}
	for id, disk := range w.disks {
		disk.lost++
		switch {
		case !w.runs(id):
			continue
		case !disk.excluded:
			disk.data = 2
		case disk.data > 0:
			disk.data--
		}
		disk.lost = 0
	}
}

// checkExcluded fails where a member is excluded of which the status does not say that it may be.
func (w *world) checkExcluded() {
	for i := range w.in.Set.Status.Members {
		m := &w.in.Set.Status.Members[i]
		if disk := w.diskOf(m.ID); disk.excluded && !disk.foreign && (m.Removal == nil || m.Removal.Step == v1alpha1.RemovalGrowing) {
			w.fail("%s is excluded, and no removal says so: %+v", m.ID, m.Removal)
		}
	}
}

// checkEmpty fails where a member that runs goes, and is not empty, or is not known to be.
func (w *world) checkEmpty(id string) {
	if disk := w.disks[id]; w.in.Kind.Empties && w.runs(id) && (w.mute || !disk.empty()) {
		w.fail("the pod of %s goes, which is not known to be empty: %+v", id, *disk)
	}
}

// checkClaims fails where a pod is made without a claim that its member has, on which its data is.
func (w *world) checkClaims(pod *corev1.Pod) {
	for i := range w.in.Claims {
		c := &w.in.Claims[i]
		mounts := func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == c.Name
		}
		if c.Member == pod.Name && !slices.ContainsFunc(pod.Spec.Volumes, mounts) {
			w.fail("pod %s is made without claim %s", pod.Name, c.Name)
		}
	}
}
