package eviction

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// lookAtOthers blocks where as many members of the role as may be on their way are: those with a permit that were not
// seen gone, and those that are terminating for whatever cause.
func (j *judgement) lookAtOthers() {
	j.findOthers()
	switch full := j.full(len(j.others) + len(j.replaced)); {
	case full && len(j.others) > 0:
		j.block(anotherIsLeaving(j.others, j.role, j.policy.Key.Namespace))
	case full:
		j.block(anotherIsReplaced(j.replaced, j.policy.Key.Namespace))
	}
}

// findOthers lists the policy's other members that are on their way, which rules may ask for.
func (j *judgement) findOthers() {
	for _, other := range leavingOf(j.policy, j.in.Peers) {
		if j.own(&other.MemberRef) {
			continue
		}
		j.leaving = append(j.leaving, j.presentID(&other))
		if j.sharesRole(&other) {
			j.others = append(j.others, &other)
		}
	}
	j.findReplaced()
}

// presentID is the id that the policy gives the member's pod, where that is still there: spec.members[].id may have been changed
// since the permit was written, and what the system says goes by the new ids.
func (j *judgement) presentID(other *v1alpha1.Leaving) string {
	at := slices.IndexFunc(j.in.Peers, func(pod *snapshot.Pod) bool { return pod.UID == other.PodUID })
	if at >= 0 {
		if claim, ok := j.policy.Policy.Claim(j.in.Peers[at]); ok && claim.Member != "" {
			return claim.Member
		}
	}
	return other.ID
}

// sharesRole goes by the role in the entry and by the one that the policy gives the pod now: the entry may be older than a
// change of the policy's roles. A role that the policy has no more counts for every role.
func (j *judgement) sharesRole(other *v1alpha1.Leaving) bool {
	at := slices.IndexFunc(j.in.Peers, func(pod *snapshot.Pod) bool { return pod.UID == other.PodUID })
	if at >= 0 {
		if claim, ok := j.policy.Policy.Claim(j.in.Peers[at]); ok && claim.Role != nil && claim.Role.Name == j.verdict.Role {
			return true
		}
	}
	return other.Role == j.verdict.Role || !j.policy.Policy.declares(other.Role)
}

func (j *judgement) full(count int) bool { return j.role.atOnce > 0 && count >= j.role.atOnce }

// leavingOf lists the members of a policy that are on their way.
func leavingOf(policy *Declared, peers []*snapshot.Pod) []v1alpha1.Leaving {
	var leaving []v1alpha1.Leaving
	if policy.Status != nil {
		leaving = slices.Clone(policy.Status.Leaving)
	}
	for _, pod := range peers {
		if !pod.Terminating() || pod.Namespace != policy.Key.Namespace || permitOf(leaving, pod.UID) >= 0 {
			continue
		}
		if claim, ok := policy.Policy.Claim(pod); ok && claim.Role != nil {
			leaving = append(leaving, v1alpha1.Leaving{MemberRef: claim.Ref(pod)})
		}
	}
	return leaving
}

func permitOf(leaving []v1alpha1.Leaving, uid types.UID) int {
	return slices.IndexFunc(leaving, func(l v1alpha1.Leaving) bool { return l.PodUID == uid })
}

// preparedOthers names the role's other members for which a step was begun, while their pods are there. One that is emptied has left.
func (j *judgement) preparedOthers() []string {
	var names []string
	for i := range j.status().Preparations {
		step := &j.status().Preparations[i]
		if step.PodUID == j.in.Pod.UID || step.ID == j.verdict.Member || slices.Contains(names, step.ID) {
			continue
		}
		if j.hasRole(step.PodUID) && emptiedOf(j.status().Emptied, step.PodUID) < 0 {
			names = append(names, step.ID)
		}
	}
	return names
}

// hasRole reports whether the pod is there, stays, and has the judged one's role.
func (j *judgement) hasRole(uid types.UID) bool {
	at := slices.IndexFunc(j.in.Peers, func(pod *snapshot.Pod) bool { return pod.UID == uid })
	if at < 0 || j.in.Peers[at].Terminating() {
		return false
	}
	claim, ok := j.policy.Policy.Claim(j.in.Peers[at])
	return ok && claim.Role != nil && claim.Role.Name == j.verdict.Role
}

// preparing names the role's other members for which a step stands in the status, those whose pod is on its way included. A
// pod that is not among the peers counts for as long as evidence from before the step may be about, and while its permit stands: the step
// may be taken back without a mark (goneUndo).
func (j *judgement) preparing() []string {
	var ids []string
	for i := range j.status().Preparations {
		step := &j.status().Preparations[i]
		if j.own(&step.MemberRef) || step.ID == j.verdict.Member || slices.Contains(ids, step.ID) {
			continue
		}
		if j.sameRole(step) {
			ids = append(ids, step.ID)
		}
	}
	return ids
}

func (j *judgement) sameRole(step *v1alpha1.PreparationStatus) bool {
	at := slices.IndexFunc(j.in.Peers, func(pod *snapshot.Pod) bool { return pod.UID == step.PodUID })
	if at < 0 {
		return j.in.Now.Sub(step.LastRequestTime.Time) < permitLife || permitOf(j.status().Leaving, step.PodUID) >= 0
	}
	claim, ok := j.policy.Policy.Claim(j.in.Peers[at])
	return ok && claim.Role != nil && claim.Role.Name == j.verdict.Role
}
