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
	return slices.ContainsFunc(w.in.Pods, func(p Pod) bool { return p.Name == id && p.Node != "" && !w.lost[p.Node] && !p.Finished })
}

// look is what the system says of the members, once there is one.
func (w *world) look() {
	if !w.in.Kind.Empties {
		return
	}
	w.in.List = Listing{Unread: "the database is not available"}
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
			Zone: w.zoneKnown(m.ID), Leads: w.leading == m.ID, Uptime: w.uptime, IPs: w.ipsKnown(m.ID), Name: m.ID, Processes: processes, Whole: runs && !disk.excluded, Healthy: runs, Excluded: disk.excluded, Empty: runs && disk.empty() || !runs && disk.lost >= fullAfter,
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

func (w *world) diskOf(id string) *disk {
	if w.disks[id] == nil {
		w.disks[id] = &disk{}
	}
	return w.disks[id]
}

func (w *world) newest() string { return fmt.Sprintf("kv:%d@%s", w.file, strings.Join(w.leads, ",")) }

// form is what the first members are asked for: once all run that the file names.
func (w *world) form() {
	if w.begun {
		return
	}
	_, ips, _ := strings.Cut(w.in.File.Content, "@")
	w.leads = strings.Split(ips, ",")
	w.begun = true
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
		if w.diskOf(m.ID).excluded && (m.Removal == nil || m.Removal.Step == v1alpha1.RemovalGrowing) {
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
