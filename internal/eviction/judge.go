package eviction

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"

	"usher.sh/usher/internal/expression"
)

// Input is everything that a verdict looks at.
type Input struct {
	Now time.Time // taken after Evidence was obtained
	// Pod must have its annotations: they may break the glass. It is nil for a member that has none; Absent names it then, and
	// JudgeReplace alone takes it: there is nothing to evict.
	Pod    *snapshot.Pod
	Absent *Absent
	// Fresh says that Pod comes from the apiserver now (the old object of a DELETE, a live GET) and not from a cache.
	Fresh bool
	// Deleted says that the pod was seen gone; Pod is what was known of it last. Of a member without a pod, that nothing of it runs any more.
	Deleted bool
	Node    *snapshot.Node // nil: not known
	// NodeOff says that the pod's node is proven off in the boot in which the pod was on it: nothing runs in the pod any more, and it cannot
	// be drained. It goes where the role's rules of replacement let another member take its place.
	NodeOff bool
	// Ungoverned says that, by a read past the cache, the pod's namespace has no policy in mode Enforce and no GovernedLabel: no pod in it
	// is governed, whatever its labels claim. So it is with Policies in mode Audit, of which PolicyLabel says nothing.
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
	// Holds are the requests of maintenances that stand for the pod, and HoldLimits how long blockers of its policies may hold them.
	Holds      []Held
	HoldLimits []snapshot.HoldLimit
	// CostBudget is shared by the verdicts of one look; nil: this one stands alone. Each has a limit of its own as well.
	CostBudget *expression.CostBudget
}

// Absent is a member without a pod, of a policy.
type Absent struct {
	Policy snapshot.Key
	Member v1alpha1.MemberRef // Role and ID
}

// Judge says whether the pod may leave its node. A pod that no policy governs may, with Role "".
func Judge(in Input) Verdict { return judgeEviction(in).verdict }

// JudgeReplace says whether another member may take the place of the pod's, or of one that has no pod. Where there is none, a rule
// that asks for more of it than whether it is deleted does not pass.
func JudgeReplace(in Input) Verdict {
	j := claimed(in)
	if j.role == nil {
		return j.conclude().verdict
	}
	return j.judgeReplacement().verdict
}

func (j *judgement) judgeReplacement() *judgement {
	j.findOthers()
	j.examine(j.role.replace)
	if j.role.declared.Replace.Successor == v1alpha1.SuccessorNone && len(j.verdict.Blockers) == 0 {
		j.block(noSuccessor(j.role.declared.Name))
	}
	return j.conclude()
}

func judgeEviction(in Input) *judgement {
	j := claimedPod(in)
	if governed := j.role != nil || len(j.verdict.Blockers) > 0; in.Pod != nil && governed && !j.idle() {
		j.unmovable()
	}
	return j.judge()
}

// judgeDeletion is about a pod that may come back on its node.
func judgeDeletion(in Input) *judgement {
	j := claimedPod(in)
	j.deletion = true
	return j.judge()
}

// claimedPod is claimed where there is a pod: of a member that has none there is nothing to evict.
func claimedPod(in Input) *judgement {
	if in.Pod != nil {
		return claimed(in)
	}
	j := &judgement{in: in}
	j.block(idUnknown("it has no pod"))
	return j
}

func (j *judgement) judge() *judgement {
	switch {
	case j.role == nil || j.idle():
		return j.conclude()
	case j.in.NodeOff:
		return j.judgeLost()
	}
	j.lookAtOthers()
	j.keepFloor()
	j.examine(j.role.evict)
	if !j.replacedFirst() {
		j.prepare()
	}
	j.awaitEarlier()
	j.awaitLocks()
	return j.conclude()
}

// judgeLost is about a member whose node is proven off. One that could always be evicted may go now as well; nothing is prepared, since
// nothing is there that could leave. One whose role says what is done then may go once that is written down: from then on it needs no pod.
func (j *judgement) judgeLost() *judgement {
	if j.role.lost != nil {
		j.findOthers()
		j.awaitLost()
		return j.conclude()
	}
	if len(j.role.evict) > 0 {
		return j.judgeReplacement()
	}
	j.findOthers()
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
	// load is set where one of several entries that claim the pod has it stay.
	load bool
	// deletion: it is about a DELETE.
	deletion bool
	// valid: the evidence may decide.
	valid bool
	facts expression.Facts // of the member; nil: not known
	scope map[string]any
	// costs is for rules and steps, words for what is said about them.
	costs, words *expression.CostBudget
	// others are the role's other members that are on their way, replaced those that are being replaced and not among them.
	others   []*v1alpha1.Leaving
	replaced []*v1alpha1.Replacing
	leaving  []string // ids of members of all roles
}

// block adds a blocker. What its words quote may be anything: it is cleaned here, for all who print it.
func (j *judgement) block(b Blocker) {
	b.Message, b.Remedy = text.Line(b.Message), text.Line(b.Remedy)
	j.verdict.Blockers = append(j.verdict.Blockers, b)
}

// claimed finds the policy, the entry and the role.
func claimed(in Input) *judgement {
	j := &judgement{
		in:    in,
		costs: expression.NewCostBudget(verdictEffort, in.CostBudget),
		words: expression.NewCostBudget(wordsEffort, in.CostBudget),
	}
	if in.Pod == nil {
		j.takeAbsent()
		return j
	}
	j.verdict.BreakGlass = text.Line(in.Pod.Annotations[v1alpha1.BreakGlassAnnotation])
	j.verdict.HoldExpired = in.holdExpired()
	found := claimants(in.Policies, in.Pod)
	switch {
	case unguarded(found) && j.mislabelled():
	case len(found) == 1:
		j.take(found[0])
	case len(found) > 1:
		j.block(claimedTwice(found))
		j.load = slices.ContainsFunc(found, func(c claimant) bool { return c.entry.load })
	}
	return j
}

func (j *judgement) take(found claimant) {
	member, problem := found.entry.member(j.in.Pod)
	if !j.takeMember(found, member) {
		return
	}
	if problem != "" && len(j.role.evict)+len(j.role.replace) > 0 {
		j.block(idUnknown(problem))
	}
}

// takeAbsent takes the first entry of its policy that has the member's role. That it has no pod is a claim: it is not believed
// where a pod is known that the policy says is this member.
func (j *judgement) takeAbsent() {
	absent := j.in.Absent
	if absent == nil {
		j.block(idUnknown("neither a pod nor a member is named"))
		return
	}
	j.verdict.Member, j.verdict.Role = absent.Member.ID, absent.Member.Role
	policy := slices.IndexFunc(j.in.Policies, func(d Declared) bool { return d.Key == absent.Policy })
	if policy < 0 {
		j.block(roleUnknown(absent))
		return
	}
	found := claimant{policy: &j.in.Policies[policy]}
	if problems := found.policy.Policy.problems; len(problems) > 0 {
		j.block(policyInvalid(found.policy.Key, problems))
		return
	}
	if found.entry = found.policy.Policy.entryOf(absent.Member.Role); found.entry == nil {
		j.block(roleUnknown(absent))
		return
	}
	if j.takeMember(found, absent.Member.ID); absent.Member.ID == "" {
		j.block(idUnknown("the member has no id"))
	}
	if pod := podOf(found.policy, &absent.Member, j.in.Peers); pod != nil {
		j.block(notAbsent(absent, pod))
	}
}

// entryOf returns the first entry whose members have the role, nil if none has.
func (p *Policy) entryOf(role string) *entry {
	at := slices.IndexFunc(p.entries, func(e entry) bool { return e.role != nil && e.role.declared.Name == role })
	if at < 0 {
		return nil
	}
	return &p.entries[at]
}

// podOf returns the pod among those that is the policy's member, nil if none is.
func podOf(policy *Declared, member *v1alpha1.MemberRef, pods []*snapshot.Pod) *snapshot.Pod {
	for _, pod := range pods {
		if pod.Namespace != policy.Key.Namespace {
			continue
		}
		if claim, ok := policy.Policy.Claim(pod); ok && policy.Policy.same(claim.role(), claim.Member, member) {
			return pod
		}
	}
	return nil
}

// takeMember reports whether the policy can judge it.
func (j *judgement) takeMember(found claimant, id string) bool {
	j.policy, j.entry = found.policy, found.entry
	j.verdict.Member = id
	if found.entry.role != nil {
		j.verdict.Role = found.entry.role.declared.Name
	}
	if problems := found.policy.Policy.problems; len(problems) > 0 {
		j.block(policyInvalid(found.policy.Key, problems))
		return false
	}
	j.role = found.entry.role
	if found.policy.Policy.suspended {
		j.block(policySuspended(found.policy.Key))
	}
	return true
}

// uid is that of the member's pod, "" where it has none.
func (j *judgement) uid() types.UID {
	if j.in.Pod == nil {
		return ""
	}
	return j.in.Pod.UID
}

// own reports whether a permit is the judged member's: its pod's, or, of one without a pod, that of the member of its id.
func (j *judgement) own(ref *v1alpha1.MemberRef) bool {
	if j.in.Pod == nil {
		return j.sameMember(ref)
	}
	return ref.PodUID == j.in.Pod.UID
}

// sameMember reports whether an entry of the policy's status is about the judged member, whichever pod it is about.
func (j *judgement) sameMember(ref *v1alpha1.MemberRef) bool {
	return j.policy.Policy.same(j.verdict.Role, j.verdict.Member, ref)
}

// unmovable blocks what would not take the member off its node: the pod would be back there at once, or only its image in
// the API would go. That is so whatever its role is, also where that is not known: the end of a hold lets everything else go.
func (j *judgement) unmovable() {
	switch owner := j.in.Pod.Owner; {
	case j.loads(): // nothing is to take it off
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
			j.load = policy.Policy.blindLoad
		} else {
			j.block(policyDisagrees(policy.Key))
		}
		return true
	}
	j.block(policyUnknown(j.in.Pod.Key(), name))
	return true
}

// LabelValue is the value of PolicyLabel for a policy.
func LabelValue(policy string) string { return snapshot.PolicyLabelValue(policy) }

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

// lets reports whether the pod may go, by the verdict, by broken glass, or since a maintenance has been held for as long as it may be.
func (j *judgement) lets() bool {
	return j.verdict.Answer == Allowed || j.verdict.BreakGlass != "" || j.expired()
}

// expired reports whether blockers hold the pod no longer. A pod that would be back on its node at once stays all the same.
func (j *judgement) expired() bool {
	return j.verdict.HoldExpired != "" && j.verdict.Answer != Allowed &&
		!slices.ContainsFunc(j.verdict.Blockers, func(b Blocker) bool { return b.Reason == Unmovable || b.Reason == PodStays })
}
