package eviction

import (
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// Input is everything that a verdict looks at.
type Input struct {
	Now time.Time // taken after Evidence was obtained
	// Pod must have its annotations: they may break the glass.
	Pod *snapshot.Pod
	// Fresh says that Pod comes from the apiserver now (the old object of a DELETE, a live GET) and not from a cache.
	Fresh bool
	// Deleted says that the pod was seen gone; Pod is what was known of it last.
	Deleted bool
	Node    *snapshot.Node // nil: not known
	// Ungoverned says that, by a read past the cache, the pod's namespace has no policy and no GovernedLabel: no pod in it
	// is governed, whatever its labels claim.
	Ungoverned bool
	// Policies are those of the pod's namespace, all of them; others are passed over.
	Policies []Declared
	// Evidence is that of the policy that claims the pod; nil: there is none. It is not looked at where several do.
	Evidence *Evidence
	// Peers are pods of the namespace: at least those that are terminating and those that the policy's status names. Pod
	// itself may be among them.
	Peers []*snapshot.Pod
	// Rosters are those of the policies whose roles ask for all members (Claim.Roster), by policy. One that is missing is not known.
	Rosters map[snapshot.Key]*Roster
	// Effort is shared by the verdicts of one look; nil: this one stands alone. Each has a limit of its own as well.
	Effort *Effort
}

// Judge says whether the pod may leave its node. A pod that no policy governs may, with Role "".
func Judge(in Input) Verdict { return judgeEviction(in).verdict }

// JudgeReplace says whether another member may take the pod's place.
func JudgeReplace(in Input) Verdict {
	j := claimed(in)
	if j.role == nil {
		return j.conclude().verdict
	}
	j.findOthers()
	j.examine(j.role.replace)
	if j.role.declared.Replace.By == v1alpha1.ByNobody && len(j.verdict.Blockers) == 0 {
		j.block(nobodyReplaces(j.role.declared.Name))
	}
	return j.conclude().verdict
}

func judgeEviction(in Input) *judgement {
	j := claimed(in)
	if j.role != nil && !j.idle() {
		j.unmovable()
	}
	return j.judge()
}

// judgeDeletion is about a pod that may come back on its node.
func judgeDeletion(in Input) *judgement { return claimed(in).judge() }

func (j *judgement) judge() *judgement {
	if j.role == nil || j.idle() {
		return j.conclude()
	}
	j.lookAtOthers()
	j.keepFloor()
	j.examine(j.role.evict)
	j.prepare()
	return j.conclude()
}

// judgement is a verdict in the making.
type judgement struct {
	in      Input
	verdict Verdict
	// policy, entry and role are set where exactly one valid entry claims the pod.
	policy *Declared
	entry  *entry
	role   *role
	// valid: the evidence may decide.
	valid bool
	facts Facts // of the member; nil: not known
	scope map[string]any
	// effort is for rules and steps, words for what is said about them.
	effort, words *Effort
	// others are the role's other members that are on their way.
	others  []*v1alpha1.Leaving
	leaving []string // ids of members of all roles
}

// block adds a blocker. What its words quote may be anything: it is cleaned here, for all who print it.
func (j *judgement) block(b Blocker) {
	b.Message, b.WayOut = text.Line(b.Message), text.Line(b.WayOut)
	j.verdict.Blockers = append(j.verdict.Blockers, b)
}

// claimed finds the policy, the entry and the role.
func claimed(in Input) *judgement {
	j := &judgement{
		in:     in,
		effort: &Effort{left: verdictEffort, within: in.Effort},
		words:  &Effort{left: wordsEffort, within: in.Effort},
	}
	j.verdict.BreakGlass = text.Line(in.Pod.Annotations[v1alpha1.BreakGlassAnnotation])
	found := claimants(in.Policies, in.Pod)
	switch {
	case unguarded(found) && j.mislabelled():
	case len(found) == 1:
		j.take(found[0])
	case len(found) > 1:
		j.block(claimedTwice(found))
	}
	return j
}

func (j *judgement) take(found claimant) {
	j.policy, j.entry = found.policy, found.entry
	member, problem := found.entry.member(j.in.Pod)
	j.verdict.Member = member
	if found.entry.role != nil {
		j.verdict.Role = found.entry.role.declared.Name
	}
	if problems := found.policy.Policy.problems; len(problems) > 0 {
		j.block(policyInvalid(found.policy.Key, problems))
		return
	}
	j.role = found.entry.role
	if found.policy.Policy.suspended {
		j.block(policySuspended(found.policy.Key))
	}
	if problem != "" && len(j.role.evict)+len(j.role.replace) > 0 {
		j.block(idUnknown(problem))
	}
}

// unmovable blocks what would not take the member off its node: the pod would be back there at once, or only its image in
// the API would go.
func (j *judgement) unmovable() {
	switch owner := j.in.Pod.Owner; {
	case j.in.Pod.Mirror:
		j.block(staticPod())
	case owner.DaemonSet():
		j.block(daemonPod(owner.Name))
	}
}

// mislabelled blocks a pod that no policy guards by what is known here, and that has the label all the same. What governed the pod may
// come back, cannot be read, or selects it, or asks something of its role, by a version that has not come here yet: no permit would be
// written, which is what proves that the policy at hand is the newest. Where the policy has let go, the label is soon taken off.
// Anyone who may create pods can write the label, so it counts only in a namespace that is, or was a moment ago, governed.
func (j *judgement) mislabelled() bool {
	name, labelled := j.in.Pod.Labels[v1alpha1.PolicyLabel]
	if !labelled || j.in.Ungoverned {
		return false
	}
	for i := range j.in.Policies {
		policy := &j.in.Policies[i]
		if policy.Key.Namespace != j.in.Pod.Namespace || LabelValue(policy.Key.Name) != name {
			continue
		}
		if policy.Policy.blind {
			j.block(policyInvalid(policy.Key, policy.Policy.problems))
		} else {
			j.block(policyDisagrees(policy.Key))
		}
		return true
	}
	j.block(policyUnknown(j.in.Pod.Key(), name))
	return true
}

// LabelValue is the value of PolicyLabel for a policy.
func LabelValue(policy string) string {
	const longest = 63
	if len(policy) > longest {
		policy = policy[:longest]
	}
	return strings.TrimRight(policy, "-.")
}

// idle reports whether nothing runs in the pod that could be lost: its containers have ended for good, or it never was on
// a node. The latter is believed of a fresh read only, since a cache may not have seen yet that it was scheduled.
func (j *judgement) idle() bool {
	if len(j.verdict.Blockers) > 0 {
		return false
	}
	return j.in.Pod.Finished() || (j.in.Fresh && j.in.Pod.Node == "")
}

func (j *judgement) conclude() *judgement {
	j.verdict.Answer = Allowed
	for i := range j.verdict.Blockers {
		if j.verdict.Blockers[i].Never {
			j.verdict.Answer = Never
			return j
		}
		j.verdict.Answer = Blocked
	}
	return j
}

// lets reports whether the pod may go, by the verdict or by broken glass.
func (j *judgement) lets() bool {
	return j.verdict.Answer == Allowed || j.verdict.BreakGlass != ""
}
