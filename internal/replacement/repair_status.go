package replacement

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// Limits of an entry of status.unhealthy, as its schema has them.
const (
	mostMemberTaints   = 32
	mostMemberBlockers = 8
)

// recordOf returns what is remembered of a member.
func recordOf(u *v1alpha1.UnhealthyMember) Record {
	record := Record{Zone: u.Zone, Node: u.Node, NodeUID: u.NodeUID, Paused: u.Paused != ""}
	for _, c := range u.Conditions {
		record.Conditions = append(record.Conditions, Condition{Type: ConditionType(c.Type), StartTime: c.StartTime.Time})
	}
	for _, t := range u.Taints {
		record.Taints = append(record.Taints, TaintClock{Key: t.Key, Effect: corev1.TaintEffect(t.Effect), StartTime: t.StartTime.Time})
	}
	return record
}

// unhealthy lists the members of which there is something to remember, those that have been unhealthy for longest first.
func (r *repairing) unhealthy(members []Member, decision *Decision, made []v1alpha1.ReplacementRequest) []v1alpha1.UnhealthyMember {
	blocked := map[memberKey]*Blocked{}
	for i := range decision.Blocked {
		blocked[keyOf(&decision.Blocked[i].Member)] = &decision.Blocked[i]
	}
	requests := map[memberKey]string{}
	for key, q := range r.standing {
		requests[key] = q.Name
	}
	for i := range made {
		requests[memberKey{made[i].Spec.Member.Role, made[i].Spec.Member.ID}] = made[i].Name
	}
	var all []v1alpha1.UnhealthyMember
	for i := range members {
		record := &decision.Records[i]
		if len(record.Conditions) == 0 && len(record.Taints) == 0 && members[i].Paused == "" { // of those on cordoned nodes, where they are
			continue
		}
		key := keyOf(&members[i].MemberRef)
		u := entryOf(&members[i], record)
		u.Request = requests[key]
		if b := blocked[key]; b != nil {
			u.Blockers = blockersOf(b.Blockers, mostMemberBlockers)
		}
		all = append(all, u)
	}
	slices.SortStableFunc(all, func(a, b v1alpha1.UnhealthyMember) int { return oldest(&a).Compare(oldest(&b)) })
	slices.SortStableFunc(all, func(a, b v1alpha1.UnhealthyMember) int { return cmp.Compare(rank(&a), rank(&b)) })
	return all[:min(len(all), mostUnhealthy)]
}

// rank puts what a person or repair has done before what is wrong, and that before what may become so.
func rank(u *v1alpha1.UnhealthyMember) int {
	switch {
	case u.Request != "" || u.RequestEndTime != nil:
		return 0
	case len(u.Conditions) > 0:
		return 1
	}
	return 2
}

func entryOf(m *Member, record *Record) v1alpha1.UnhealthyMember {
	u := v1alpha1.UnhealthyMember{
		Role: m.Role, ID: m.ID, PodName: m.PodName, Node: record.Node, NodeUID: record.NodeUID, Zone: record.Zone, Paused: m.Paused,
	}
	for _, c := range record.Conditions {
		u.Conditions = append(u.Conditions, v1alpha1.MemberCondition{Type: v1alpha1.MemberConditionType(c.Type), StartTime: *stamp(c.StartTime)})
	}
	for _, t := range record.Taints[:min(len(record.Taints), mostMemberTaints)] {
		u.Taints = append(u.Taints, v1alpha1.MemberTaint{Key: t.Key, Effect: string(t.Effect), StartTime: *stamp(t.StartTime)})
	}
	if !m.CancelTime.IsZero() {
		u.RequestEndTime = stamp(m.CancelTime)
	}
	return u
}

// oldest is since when a member is unhealthy, or tainted.
func oldest(u *v1alpha1.UnhealthyMember) time.Time {
	var first metav1.Time
	earlier := func(t metav1.Time) {
		if first.IsZero() || t.Before(&first) {
			first = t
		}
	}
	for _, c := range u.Conditions {
		earlier(c.StartTime)
	}
	for _, t := range u.Taints {
		earlier(t.StartTime)
	}
	return first.Time
}
