package eviction

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// awaitEarlier blocks a member while members of roles that leave before it are on its node, and has nothing prepared for it until then: what is
// moved off the node first may need it.
func (j *judgement) awaitEarlier() {
	if len(j.entry.leavesAfter) == 0 || j.in.Pod.Node == "" {
		return
	}
	if j.roster() == nil {
		j.block(earlierUnknown(j.entry))
		j.verdict.Needed = nil
		return
	}
	if earlier := j.earlier(); len(earlier) > 0 {
		j.block(earlierRoles(earlier, j.entry, j.policy.Key))
		j.verdict.Needed = nil
	}
}

// earlier are the members on the judged one's node that leave before it, sorted.
func (j *judgement) earlier() []rosterMember {
	var found []rosterMember
	for uid, m := range j.roster().members {
		if uid != j.in.Pod.UID && m.node == j.in.Pod.Node && slices.Contains(j.entry.leavesAfter, m.role) && !j.hasLeft(uid) {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b rosterMember) int {
		return cmp.Or(cmp.Compare(a.role, b.role), cmp.Compare(a.id, b.id), cmp.Compare(a.pod, b.pod))
	})
	return found
}

// hasLeft reports whether a pod that the roster lists was seen gone, or stays and is emptied.
func (j *judgement) hasLeft(uid types.UID) bool {
	at := permitOf(j.status().Leaving, uid)
	return at >= 0 && j.status().Leaving[at].GoneTime != nil || emptiedOf(j.status().Emptied, uid) >= 0
}
