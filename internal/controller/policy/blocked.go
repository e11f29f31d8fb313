package policy

import (
	"cmp"
	"slices"

	"usher.sh/usher/internal/act"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

// mostBlocked is how many blocked members a status has, as the schema allows.
const mostBlocked = 20

// blocked lists members that stay and may not leave, each with its first blocker: the first by role and id. While a member has just been
// let go, so that all wait for the next evidence, it is the former list.
func (f *facts) blocked(members []member) []v1alpha1.BlockedMember {
	if f.waitsForEvidence() {
		return f.policy.Status.Blocked
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
