package histories

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// deployment is a site one of whose roles has pods that a ReplicaSet makes: one that terminates is followed at once by another, under another name.
type deployment interface {
	site

	// scaled is that role, and how many of its pods there are to be; "": there is none.
	scaled() (role string, replicas int)
	// add and drop have the system come to know a member, and forget it.
	add(pod string)
	drop(pod string)
	// wouldMiss says what would be missing if a member of the role were gone for good, whether it does its work or not; "": nothing.
	wouldMiss(pod string) string
}

// inDeployment reports whether a ReplicaSet makes the pods of a role.
func (w *world) inDeployment(role string) bool {
	d, ok := w.site.(deployment)
	if !ok || role == "" {
		return false
	}
	scaled, _ := d.scaled()
	return scaled == role
}

// operates reports whether an operator replaces the members of a role.
func (w *world) operates(role string) bool { return w.operator != nil && w.operator.role == role }

// replaceable reports whether there is something by which a member gets a successor.
func (w *world) replaceable(pod string) bool {
	return w.inSet(pod) || w.inDeployment(w.roleOf(pod)) || w.setSite() != nil
}

// made is what ReplicaSets and operators may do next.
func (w *world) made() []func() {
	all := []func(){w.scaleUp(), w.operate()}
	if s := w.setSite(); s != nil {
		all = append(all, s.collect())
	}
	return slices.DeleteFunc(all, func(next func()) bool { return next == nil })
}

// scaleUp is what a ReplicaSet does next, nil if that is nothing. Pods that terminate do not count.
func (w *world) scaleUp() func() {
	d, ok := w.site.(deployment)
	if !ok {
		return nil
	}
	role, replicas := d.scaled()
	for _, p := range d.members() {
		if pod := w.store.pod(p.pod); p.role == role && pod != nil && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed {
			replicas--
		}
	}
	if role == "" || replicas <= 0 {
		return nil
	}
	return func() {
		name := fmt.Sprintf("%s-%d", role, len(w.machines))
		d.add(name)
		if err := w.join(name); err != nil {
			w.fail("SIMULATOR", "adding a node: %v", err)
			return
		}
		w.recreate(planned{pod: name, role: role})
	}
}

// retire forgets a member of a ReplicaSet whose pod is gone: that never comes back.
func (w *world) retire(p planned) {
	d, ok := w.site.(deployment)
	if !ok {
		return
	}
	w.note("replicaset: %s does not come back", p.pod)
	d.drop(p.pod)
	w.restored(p.role)
}

// restored forgets which members of a role Usher has let go, once a ReplicaSet has as many that run as it is to have.
func (w *world) restored(role string) {
	d, ok := w.site.(deployment)
	if !ok {
		return
	}
	if !w.inDeployment(role) {
		return
	}
	_, replicas := d.scaled()
	for _, p := range d.members() {
		if pod := w.store.pod(p.pod); p.role == role && pod != nil && pod.DeletionTimestamp == nil && w.processRuns(p.pod) {
			replicas--
		}
	}
	if replicas <= 0 {
		maps.DeleteFunc(w.safety.let, func(pod string, its letAway) bool { return its.role == role && w.roleOf(pod) == "" })
	}
}

// misses notes since when something would be missing without a member of a ReplicaSet, of an operator, or one that leaves its system's list.
func (s *safety) misses(w *world) {
	d, ok := w.site.(deployment)
	if !ok {
		return
	}
	for _, p := range d.members() {
		switch _, known := s.missed[p.pod]; {
		case !w.inDeployment(p.role) && !w.operates(p.role) && !w.listed(p.role), d.wouldMiss(p.pod) == "":
			delete(s.missed, p.pod)
		case !known:
			s.missed[p.pod] = time.Now()
		}
	}
}

// awaited is a successor that has not begun: since when it may be made, and for which request.
type awaited struct {
	request types.UID
	since   time.Time
}

// succeeds has a pod that begins be the successor of all members of its ReplicaSet that went before it was made; of an operator's, of that of its name.
func (w *world) succeeds(p planned) {
	pod := w.store.pod(p.pod)
	if pod == nil {
		return
	}
	maps.DeleteFunc(w.awaits, func(member string, a awaited) bool {
		return (member == p.pod || w.inDeployment(p.role) && !w.operates(w.roleOf(member))) && !pod.CreationTimestamp.Time.Before(a.since)
	})
	w.restored(p.role)
}

// awaitingSuccessors are the members that were removed for a successor that has not begun.
func (w *world) awaitingSuccessors() []string {
	open := map[types.UID]bool{}
	for _, q := range list[*v1alpha1.ReplacementRequest](w.store, replaces) {
		open[q.UID] = !q.Status.Over()
	}
	members := maps.Clone(w.replacing)
	for member, a := range w.awaits {
		if open[a.request] {
			members[member] = true
		}
	}
	return slices.Sorted(maps.Keys(members))
}

// checkOneAtATime fails where members were removed whose successors have not begun, and they are more than may be replaced at a time.
func (w *world) checkOneAtATime(what string) {
	if all, most := w.awaitingSuccessors(), w.mostReplaced(); len(all) > most {
		w.fail("REPLACED", "%s while successors have not begun, of %s, and %d may be replaced at a time", what, all, most)
	}
}

// checkPodGoes: Usher deletes only the pod of a member for whose replacement a request stands, by the UID that is written down where another controller
// makes the successor; such a one not while it is Ready on a node that reports, or while no other does its work, and of no more members at a time than may
// be. What happened after Usher began to look, or after the system was asked, cannot be known.
func (w *world) checkPodGoes(r *removal, pod *corev1.Pod) {
	if r.user != self || !r.delete {
		return
	}
	if s := w.setSite(); s != nil {
		s.checkPodGoes(r, pod)
		return
	}
	q := w.requestFor(pod, r.looked)
	if q == nil {
		w.fail("REPLACED", "pod %s (%s) is deleted, and no request says that it is replaced", pod.Name, pod.UID)
		return
	}
	d, ok := w.site.(deployment)
	if !ok || !w.inDeployment(w.roleOf(pod.Name)) {
		return
	}
	if w.readySince(pod, r.looked) {
		w.fail("REPLACED", "pod %s is deleted, which is Ready on a node that reports", pod.Name)
	}
	if since, misses := w.safety.missed[pod.Name]; misses && since.Before(r.horizon.Add(-d.lag(w.roleOf(pod.Name)))) {
		w.fail("REPLACED", "pod %s is deleted, and %s since %.3f", pod.Name, d.wouldMiss(pod.Name), since.Sub(w.begun).Seconds())
	}
	w.awaits[pod.Name] = awaited{q.UID, q.Status.Predecessor.StartTime.Time}
	w.checkOneAtATime("pod " + pod.Name + " is deleted")
}

// requestFor is the request that says that a pod is replaced: one that stands, or that has stood since a time; nil: there is none.
func (w *world) requestFor(pod *corev1.Pod, since time.Time) *v1alpha1.ReplacementRequest {
	return w.requestWhere(since, func(q *v1alpha1.ReplacementRequest) bool {
		p, role := q.Status.Predecessor, strings.TrimPrefix(q.Spec.Member.Role, "own-")
		named := p != nil && (p.StatefulSet != "" || p.PodUID == pod.UID && p.StartTime != nil)
		return named && q.Spec.Member.ID == pod.Name && role == w.roleOf(pod.Name)
	})
}

// requestWhere is the first request that is so and is not over, or has gone since a time.
func (w *world) requestWhere(since time.Time, is func(*v1alpha1.ReplacementRequest) bool) *v1alpha1.ReplacementRequest {
	all := list[*v1alpha1.ReplacementRequest](w.store, replaces)
	for _, e := range w.store.events[replaces] {
		if gone, ok := e.before.(*v1alpha1.ReplacementRequest); ok && e.after == nil && !e.gone.Before(since) {
			all = append(all, gone)
		}
	}
	at := slices.IndexFunc(all, func(q *v1alpha1.ReplacementRequest) bool { return !q.Status.Over() && is(q) })
	if at < 0 {
		return nil
	}
	return all[at]
}

// readySince reports whether a pod and its node have been Ready since before a time.
func (w *world) readySince(pod *corev1.Pod, at time.Time) bool {
	node, ok := w.store.get(nodes, w.nodeKey(pod.Name)).(*corev1.Node)
	return ok && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && c.LastTransitionTime.Time.Before(at)
	}) && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && c.LastTransitionTime.Time.Before(at)
	})
}
