package policy

import (
	"cmp"
	"slices"

	"usher.sh/usher/internal/act"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

// mostBlocked is how many blocked members a status has, as the schema allows.
const mostBlocked = 20

// blocked lists members that stay and may not leave, each with its first blocker: the first by role and id. While a member has just been
// let go, so that all wait for the next evidence, it is the former list, of the pods in which the members are now.
func (f *facts) blocked(members []member) []v1alpha1.BlockedMember {
	if f.waitsForEvidence() {
		return f.formerlyBlocked()
	}
	var all []v1alpha1.BlockedMember
	for i := range members {
		m := &members[i]
		if m.verdict.Answer == eviction.Allowed || f.leaves(m) {
			continue
		}
		first := &m.verdict.Blockers[0]
		all = append(all, v1alpha1.BlockedMember{
			MemberRef: f.ref(m), Rule: first.Rule, Reason: first.Reason, Message: act.EventNote(first.Message),
		})
	}
	slices.SortFunc(all, func(a, b v1alpha1.BlockedMember) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.ID, b.ID), cmp.Compare(a.PodUID, b.PodUID))
	})
	return all[:min(len(all), mostBlocked)]
}

// formerlyBlocked is the former list, of the pods in which the members are now: that a member is in another pod is then written with what
// becomes of its former one, and not by itself when the members are judged anew. No pod is listed twice: several may have one id.
func (f *facts) formerlyBlocked() []v1alpha1.BlockedMember {
	all := slices.Clone(f.policy.Status.Blocked)
	for i := range all {
		if slices.ContainsFunc(f.pods, func(p *snapshot.Pod) bool { return p.UID == all[i].PodUID }) {
			continue
		}
		pod := f.memberPod(&all[i])
		if pod != nil && !slices.ContainsFunc(all, func(b v1alpha1.BlockedMember) bool { return b.PodUID == pod.UID }) {
			all[i].PodName, all[i].PodUID, all[i].Node = pod.Name, pod.UID, pod.Node
		}
	}
	return all
}

// memberPod finds the pod that a member has now, nil if there is none that stays. What has no id has no other pod.
func (f *facts) memberPod(of *v1alpha1.BlockedMember) *snapshot.Pod {
	if of.ID == "" {
		return nil
	}
	for _, pod := range f.pods {
		if pod.Terminating() {
			continue
		}
		if claim, ok := f.own.Policy.Claim(pod); ok && claim.Member == of.ID && f.policy.Spec.Members[claim.Entry].Role == of.Role {
			return pod
		}
	}
	return nil
}

// unjudged is what is seen without judging the members anew, nil where that is what the status says.
func (f *facts) unjudged() *v1alpha1.EvictionPolicyStatus {
	status := f.policy.Status.DeepCopy()
	status.Blocked = f.formerlyBlocked()
	if same(&f.policy.Status, status) {
		return nil
	}
	return status
}

// waitsForEvidence: what the system said last was said before a member was let go.
func (f *facts) waitsForEvidence() bool {
	return f.evidence != nil && f.evidence.Epoch != f.policy.Status.Epoch
}

// leaves reports whether a member is on its way.
func (f *facts) leaves(m *member) bool {
	return m.pod.Terminating() || slices.ContainsFunc(f.policy.Status.Leaving, func(l v1alpha1.Leaving) bool { return l.PodUID == m.pod.UID })
}

// ref names the member by the role of its entry, which may be one that there is not.
func (f *facts) ref(m *member) v1alpha1.MemberRef {
	return v1alpha1.MemberRef{
		Role: f.policy.Spec.Members[m.own.Entry].Role, ID: m.own.Member, PodName: m.pod.Name, PodUID: m.pod.UID, Node: m.pod.Node,
	}
}

// sameBlocker passes over messages: they may have numbers and others' names in them that change at every look, and each change would be a
// write. They are as old as the evidence's time at most.
func sameBlocker(a, b v1alpha1.BlockedMember) bool {
	a.Message, b.Message = "", ""
	return a == b
}
