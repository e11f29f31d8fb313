package eviction

import (
	"slices"

	"usher.sh/usher/api/v1alpha1"
)

// prepare finds the steps that would clear the blockers, and names those that were begun.
func (j *judgement) prepare() {
	j.undoing()
	if len(j.verdict.Blockers) == 0 || !j.valid || j.policy.Policy.suspended {
		return
	}
	for i := range j.verdict.Blockers {
		if j.verdict.Blockers[i].Never {
			return
		}
	}
	for i := range j.role.prepare {
		j.askFor(&j.role.prepare[i])
	}
	j.pending()
}

// undoing blocks a member whose step is being taken back: what the system said of it is about to become untrue. A step that was begun for
// another pod of the member may be taken back any moment, unmarked (goneUndo). That is no matter to a role that asks nothing.
func (j *judgement) undoing() {
	if len(j.role.evict) == 0 {
		return
	}
	for i := range j.status().Preparations {
		step := &j.status().Preparations[i]
		switch {
		case !j.sameMember(&step.MemberRef):
		case step.State == v1alpha1.PreparationUndoing:
			j.block(beingUndone(j.policy, step))
		case j.anotherPods(step):
			j.block(begunForAnotherPod(step))
		}
	}
}

// anotherPods reports whether a step was begun for another pod than the one that is judged.
func (j *judgement) anotherPods(step *v1alpha1.PreparationStatus) bool {
	return j.in.Pod != nil && step.PodUID != j.in.Pod.UID
}

func (j *judgement) askFor(step *preparation) {
	value, err := step.when.EvalWith(j.scope, j.costs)
	if err != nil {
		j.block(stepFailed(step, err))
		return
	}
	if needed, _ := value.(bool); needed {
		j.verdict.Needed = append(j.verdict.Needed, Preparation{
			Name: step.name, Namespace: j.in.Pod.Namespace, Member: memberRef(j.role.declared.Name, j.verdict.Member, j.in.Pod),
			Message: step.message.ExpandBrief(j.scope, j.words), ExpectedDuration: step.expected, Remaining: remainingOf(step, j.scope, j.words),
		})
	}
}

// pending says how the first step stands. A member whose role has as many on their way as it allows waits for its turn
// even to be prepared: two servers that are emptied at once may have nowhere to put their data.
func (j *judgement) pending() {
	if len(j.verdict.Needed) == 0 {
		return
	}
	step := &j.verdict.Needed[0]
	if at := stepOf(j.policy, step); at >= 0 {
		if j.status().Preparations[at].State == v1alpha1.PreparationBegun && !j.anotherPods(&j.status().Preparations[at]) {
			j.block(isPending(&j.status().Preparations[at], step.Message))
		}
		return
	}
	prepared := j.preparedOthers()
	if !j.full(len(j.others) + len(j.replaced) + len(prepared)) {
		return
	}
	j.verdict.Needed = nil
	if len(prepared) > 0 {
		j.block(anotherIsPrepared(prepared, j.role))
	}
}

// stepOf is the index of a step in the status of its policy; -1: it was not begun.
func stepOf(policy *Declared, step *Preparation) int {
	if policy.Status == nil {
		return -1
	}
	return slices.IndexFunc(policy.Status.Preparations, func(p v1alpha1.PreparationStatus) bool {
		return p.Name == step.Name && policy.Policy.same(step.Member.Role, step.Member.ID, &p.MemberRef)
	})
}
