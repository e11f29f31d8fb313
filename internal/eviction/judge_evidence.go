package eviction

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"

	"usher.sh/usher/internal/expression"
)

// examine asks the rules, and the evidence that they speak of. A role without rules needs none: its members may leave
// while the system is down.
func (j *judgement) examine(rules []rule) {
	if len(rules) > 0 {
		j.weigh()
	}
	j.scope = j.newScope().Variables()
	for i := range rules {
		j.ask(&rules[i])
	}
}

// weigh decides whether the evidence may decide.
func (j *judgement) weigh() {
	evidence := j.in.Evidence
	if evidence == nil {
		j.block(notAsked())
		return
	}
	if evidence.TooLarge {
		j.block(tooLarge(evidence.Error))
		return
	}
	if evidence.Error != "" {
		j.block(cannotAsk(evidence.Error))
		return
	}
	j.verdict.Evidence = evidence.Observed
	before := len(j.verdict.Blockers)
	j.weighAge(evidence)
	j.weighEpoch(evidence)
	facts, ok := evidence.Members[j.verdict.Member]
	if j.verdict.Member != "" && !ok {
		j.block(notAMember(j.verdict.Member))
	}
	if pods := evidence.Shared[j.verdict.Member]; len(pods) > 1 {
		j.block(sharedID(j.verdict.Member, pods))
	}
	if ok && facts == nil {
		facts = expression.Facts{}
	}
	j.facts = facts
	j.valid = len(j.verdict.Blockers) == before && j.verdict.Member != ""
}

// weighAge refuses evidence from the future as well: a clock that was set back would keep it young.
func (j *judgement) weighAge(evidence *Evidence) {
	age, limit := j.in.Now.Sub(evidence.Observed), j.policy.Policy.maxAge
	switch {
	case age > limit:
		j.block(stale(fmt.Sprintf("what is known of the system is %s old, and %s is allowed", seconds(age), limit)))
	case age < -limit:
		j.block(stale(fmt.Sprintf("what is known of the system was observed %s from now: a clock was set back", seconds(-age))))
	}
}

func (j *judgement) weighEpoch(evidence *Evidence) {
	if evidence.Epoch != j.status().Epoch {
		j.block(stale("what is known of the system is from before the last change of who is leaving"))
	}
}

func (j *judgement) status() *v1alpha1.EvictionPolicyStatus {
	if j.policy == nil || j.policy.Status == nil {
		return &v1alpha1.EvictionPolicyStatus{}
	}
	return j.policy.Status
}

func (j *judgement) newScope() *expression.Scope {
	scope := &expression.Scope{
		Now: j.in.Now, Pod: j.in.Pod, Deleted: j.deleted(), Node: j.in.Node,
		Member: j.verdict.Member, Role: j.verdict.Role, Facts: j.facts, Leaving: j.leaving, Here: j.here(), Unready: j.unready(),
		Preparing: j.preparing(), Maintained: j.maintained(),
	}
	if j.in.Evidence != nil {
		scope.System = j.in.Evidence.System
	}
	return scope
}

// maintained reports whether the pod is made anew by its MemberSet with all that it has, where no other member takes its place.
func (j *judgement) maintained() bool {
	return j.entry != nil && j.entry.maintained && j.in.Pod != nil && len(j.in.Pod.Claims) > 0 && !j.policy.Deleted
}

// deleted reports whether the pod is known to be gone with its process.
func (j *judgement) deleted() bool { return j.in.NodeOff || j.in.Deleted && !j.lingers() }

// lingers reports whether the pod, or one of a member that has none, was removed without waiting for the end of its process, which may go on.
func (j *judgement) lingers() bool {
	return slices.ContainsFunc(j.status().Leaving, func(entry v1alpha1.Leaving) bool {
		its := j.in.Pod != nil && entry.PodUID == j.in.Pod.UID || j.in.Pod == nil && entry.ID == j.verdict.Member && entry.Role == j.verdict.Role
		return its && j.in.Now.Sub(entry.StartTime.Time) < snapshot.Seconds(entry.LingerSeconds)
	})
}

// ask puts one rule to the facts. Where there are none, a rule that speaks of some says nothing: a blocker has said already
// why they are missing.
func (j *judgement) ask(r *rule) {
	if r.factual && j.facts == nil {
		return
	}
	if j.in.Pod == nil && r.passes.Names(expression.PodVariable) && (!j.deleted() || r.passes.NamesAllBut(expression.PodVariable, expression.DeletedFact)) {
		j.block(podMissing(r))
		return
	}
	value, err := r.passes.EvalWith(j.scope, j.costs)
	if missing, ok := errors.AsType[*expression.MissingError](err); ok {
		j.block(factMissing(r, missing))
		return
	}
	if err != nil {
		j.block(ruleFailed(r, err))
		return
	}
	if passed, _ := value.(bool); passed {
		return
	}
	j.block(j.failed(r))
}

func (j *judgement) failed(r *rule) Blocker {
	blocker := Blocker{
		Rule:    r.declared.Name,
		Reason:  r.declared.Reason,
		Message: r.message.ExpandBrief(j.scope, j.words),
		Retry:   lookAgain,
		// What stale facts say may change with the next ones.
		Never: r.declared.Never && (j.valid || !r.factual),
	}
	if r.remedy != nil {
		blocker.Remedy = r.remedy.ExpandBrief(j.scope, j.words)
	}
	if blocker.Never {
		blocker.Retry = 0
	}
	return blocker
}

func seconds(d time.Duration) time.Duration { return d.Round(time.Second) }
