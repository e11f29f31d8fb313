package histories

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/replacement"
)

// checkRepair checks a request that the repair controller makes, as it sends it.
func (r *replica) checkRepair(object client.Object) {
	q, ok := object.(*v1alpha1.ReplacementRequest)
	l, w := r.look, r.world
	if !ok || q.Spec.Requester != replacement.RepairRequester || l == nil || l.void || l.changed() {
		return
	}
	w.endedRepairs()
	pod, spec := q.Spec.Member.ID, &l.policy.Spec
	if !l.isMember(&q.Spec.Member) || q.Spec.Source.Name != firstPolicy {
		w.fail("REPAIRED", "%s requests the replacement of %s, which is no member of %s", r.name, pod, q.Spec.Source.Name)
		return
	}
	if now := w.policy(firstPolicy); now.Generation == l.policy.Generation && (spec.Suspend || spec.Repair.Mode != v1alpha1.RepairAutomatic) {
		w.fail("REPAIRED", "%s requests the replacement of %s although its policy is suspended (%t), or its repair %s", r.name, pod, spec.Suspend, spec.Repair.Mode)
	}
	h := l.soFar(pod)
	if l.members[pod].paused.surely() {
		w.fail("REPAIRED", "%s requests the replacement of %s, whose node is under maintenance", r.name, pod)
	}
	if !slices.ContainsFunc(memberConditions, func(kind replacement.ConditionType) bool {
		may := h.all()[kind].may
		return counts(spec.Repair, kind) && !may.IsZero() && time.Since(may) >= window(spec.Repair, kind)-second
	}) {
		w.fail("REPAIRED", "%s requests the replacement of %s, and nothing that is wrong with it has stood for long enough: %s", r.name, pod, w.since(h))
	}
	l.checkInFlight(q)
	l.checkZones(pod)
	l.made = append(l.made, q)
}

// isMember reports whether the policy has such a member, or had it when the look began.
func (l *repairLook) isMember(m *v1alpha1.ReplacementMember) bool {
	role := strings.TrimPrefix(m.Role, "own-")
	return slices.ContainsFunc(slices.Concat(l.had, l.replica.world.site.members()), func(p planned) bool { return p.pod == m.ID && p.role == role })
}

var memberConditions = []replacement.ConditionType{
	replacement.NotReporting, replacement.PodFailing, replacement.PodMissing, replacement.PodPending, replacement.NodeTainted,
}

// since says since when conditions stand.
func (w *world) since(h *health) string {
	var said []string
	for _, kind := range memberConditions {
		if s, stands := h.all()[kind]; stands {
			said = append(said, fmt.Sprintf("%s since %.3f (%.3f)", kind, s.may.Sub(w.begun).Seconds(), s.must.Sub(w.begun).Seconds()))
		}
	}
	return strings.Join(said, ", ")
}

// checkInFlight: no other request stands for the member, and not more are in flight than may be: all that stand, whatever made them, but for
// those that wait for what may never come.
func (l *repairLook) checkInFlight(q *v1alpha1.ReplacementRequest) {
	w := l.replica.world
	members, zones := 1, map[string]bool{l.zone(q.Spec.Member.ID): true}
	counted := map[string]bool{q.Name: true}
	for _, other := range slices.Concat(l.made, l.standing) {
		now, made := w.replacement(other.Name), slices.Contains(l.made, other)
		if counted[other.Name] || now == nil && !made || now != nil && now.Status.Over() || other.Spec.Source.Name != firstPolicy {
			continue
		}
		counted[other.Name] = true
		if other.Spec.Member == q.Spec.Member {
			w.fail("REPAIRED", "%s requests the replacement of %s, for which %s stands", l.replica.name, q.Spec.Member.ID, other.Name)
		}
		if !l.mayBeHeld(other) {
			members++
			zones[l.zone(other.Spec.Member.ID)] = true
		}
	}
	l.checkLimit(q, members, len(zones))
}

// checkLimit fails where members in flight, or zones that have some, are more than may be.
func (l *repairLook) checkLimit(q *v1alpha1.ReplacementRequest, members, zones int) {
	w := l.replica.world
	switch most := l.policy.Spec.Repair.MaxInFlight; {
	case most == nil && members > 1:
		w.fail("REPAIRED", "%s requests the replacement of %s: %d are in flight then, and 1 may be", l.replica.name, q.Spec.Member.ID, members)
	case most != nil && most.Members != nil && members > int(*most.Members):
		w.fail("REPAIRED", "%s requests the replacement of %s: %d are in flight then, and %d may be", l.replica.name, q.Spec.Member.ID, members, *most.Members)
	case most != nil && most.Zones != nil && zones > int(*most.Zones):
		w.fail("REPAIRED", "%s requests the replacement of %s: members of %d zones are in flight then, and of %d may be", l.replica.name, q.Spec.Member.ID, zones, *most.Zones)
	}
}

// mayBeHeld reports whether a look may take a request for one that waits for what may never come.
func (l *repairLook) mayBeHeld(began *v1alpha1.ReplacementRequest) bool {
	cached, _ := l.replica.cache.objects[replaces][client.ObjectKeyFromObject(began)].(*v1alpha1.ReplacementRequest)
	return slices.ContainsFunc([]*v1alpha1.ReplacementRequest{began, cached, l.replica.world.replacement(began.Name)}, func(q *v1alpha1.ReplacementRequest) bool {
		return q != nil && q.Status.Step == v1alpha1.ReplacementWaiting && !l.replica.world.isReplaced(q.Spec.Member.ID) &&
			(meta.IsStatusConditionTrue(q.Status.Conditions, v1alpha1.ConditionStalled) || time.Since(q.CreationTimestamp.Time) >= 10*time.Minute-second)
	})
}

// zone is that of a member as far as it is known: by the node on which its pod is, or by what the policy's status says; "": it is not.
func (l *repairLook) zone(pod string) string {
	object, _ := l.replica.cache.objects[pods][client.ObjectKey{Namespace: namespace, Name: pod}].(*corev1.Pod)
	if object != nil && l.replica.cache.objects[nodes][client.ObjectKey{Name: object.Spec.NodeName}] != nil {
		return l.replica.world.zoneOf(pod)
	}
	for i := range l.policy.Status.Unhealthy {
		if u := &l.policy.Status.Unhealthy[i]; u.ID == pod && u.Zone != "" {
			return l.replica.world.zoneOf(pod)
		}
	}
	return ""
}

// affected are the zones in which members are certainly unhealthy at this look. One that has no pod, and that no StatefulSet says is to have one, is no
// member until its ReplicaSet makes it anew: nothing is wrong with it.
func (l *repairLook) affected() map[string]bool {
	zones := map[string]bool{}
	for pod, g := range l.members {
		if g.absent.yes || g.paused.yes || g.paused.unknown || l.zone(pod) == "" {
			continue
		}
		for kind, seen := range g.conditions {
			if seen.surely() && counts(l.policy.Spec.Repair, kind) {
				zones[l.zone(pod)] = true
			}
		}
	}
	return zones
}

// checkZones: unhealthy members are in no more zones than may have some.
func (l *repairLook) checkZones(pod string) {
	all := map[string]bool{}
	for _, p := range l.replica.world.site.members() {
		all[l.replica.world.zoneOf(p.pod)] = true
	}
	above := intstr.FromString("10%")
	if l.policy.Spec.Repair.StopAbove != nil {
		above = l.policy.Spec.Repair.StopAbove.Zones
	}
	most := above.IntValue()
	if above.Type == intstr.String {
		var percent int
		_, _ = fmt.Sscanf(above.StrVal, "%d%%", &percent)
		most = len(all) * percent / 100
	}
	if affected := l.affected(); len(affected) > max(1, most) {
		l.replica.world.fail("REPAIRED", "%s requests the replacement of %s while %d zones have unhealthy members, and %d may", l.replica.name, pod, len(affected), max(1, most))
	}
}

// checkUnhealthy checks what the repair controller writes of members, as it sends it, where that can be accepted: nothing is wrong that is not, nor for longer.
func (r *replica) checkUnhealthy(k kind, p part, body []byte) {
	var patch struct {
		Metadata struct{ ResourceVersion string }
		Status   struct{ Unhealthy []v1alpha1.UnhealthyMember }
	}
	l := r.look
	if k != policies || p != status || l == nil || l.void || l.changed() || json.Unmarshal(body, &patch) != nil {
		return
	}
	if v := patch.Metadata.ResourceVersion; v != "" && v != r.world.policy(firstPolicy).ResourceVersion { // by a cache that is behind: it is refused
		return
	}
	r.world.endedRepairs()
	for i := range patch.Status.Unhealthy {
		u := &patch.Status.Unhealthy[i]
		if r.world.health[u.ID] == nil || l.members[u.ID] == nil || u.Request != "" { // what has become of that may not have been seen
			continue
		}
		h := l.soFar(u.ID)
		for _, c := range u.Conditions {
			if may := h.all()[replacement.ConditionType(c.Type)].may; may.IsZero() || c.StartTime.Add(second).Before(may) {
				r.world.fail("REPAIRED", "%s says of %s that %s stands since %.3f, and by what is true: %s", r.name, u.ID, c.Type, c.StartTime.Sub(r.world.begun).Seconds(), r.world.since(h))
			}
		}
	}
}
