package eviction

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// findReplaced lists the policy's other members that are being replaced, whose successors do not do their work yet.
func (j *judgement) findReplaced() {
	for i := range j.status().Replacing {
		other := &j.status().Replacing[i]
		if other.ID == j.verdict.Member || slices.Contains(j.leaving, other.ID) {
			continue
		}
		j.leaving = append(j.leaving, other.ID)
		if other.Role == j.verdict.Role || !j.policy.Policy.declares(other.Role) {
			j.replaced = append(j.replaced, other)
		}
	}
}

// isReplaced reports whether the judged member is being replaced.
func (j *judgement) isReplaced() bool {
	return j.policy != nil && slices.ContainsFunc(j.status().Replacing, func(r v1alpha1.Replacing) bool { return r.ID == j.verdict.Member && r.Role == j.verdict.Role })
}

// nothingRuns reports whether the pod is on no node, or on one that is proven off or not there.
func nothingRuns(in *AdmissionInput) bool {
	return in.Pod.Node == "" || in.NodeOff || in.Node == nil
}

// JudgeReplacing says whether a member's replacement may begin, or go on as long as nothing of the member was removed: by the role's rules
// of replacement, and while as few others are on their way, or are being replaced, as its role and the policy allow. Request is the UID of
// the ReplacementRequest: a member is replaced for one at a time.
func JudgeReplacing(in Input, request types.UID) Verdict {
	j := claimed(in)
	if j.role == nil {
		return j.conclude().verdict
	}
	j.judgeReplacement()
	leaving := slices.DeleteFunc(j.others, func(l *v1alpha1.Leaving) bool { return l.ID == j.verdict.Member }) // it is the one that has gone
	if len(leaving) > 0 && j.full(len(leaving)) {
		j.block(anotherIsLeaving(leaving, j.role, j.policy.Key.Namespace))
	}
	var others []*v1alpha1.Replacing
	for i := range j.status().Replacing {
		switch other := &j.status().Replacing[i]; {
		case other.RequestUID == request:
		case other.Role == j.verdict.Role && other.ID == j.verdict.Member:
			j.block(replacedForAnother(other, j.policy.Key.Namespace))
		default:
			others = append(others, other)
		}
	}
	if len(others) >= j.policy.Policy.mostReplaced {
		j.block(anotherIsReplaced(others, j.policy.Key.Namespace))
	}
	for i := range j.verdict.Blockers {
		b := &j.verdict.Blockers[i]
		b.WaivedBy = waivers(j.role.replace, b)
	}
	return j.conclude().verdict
}

// waivers are the rules that have to be given up for a blocker to hold no longer: its own, or, where the system does not answer, all that ask
// something of it. A rule about the member's own pod and node is not about data that others have, and one that is marked never is not given up,
// whatever is known.
func waivers(rules []rule, b *Blocker) []string {
	unanswered := b.Rule == "" && (b.Reason == NoEvidence || b.Reason == EvidenceStale || b.Reason == EvidenceTooLarge)
	var all []string
	for i := range rules {
		switch r := &rules[i]; {
		case b.Rule != r.declared.Name && (!unanswered || !r.factual):
		case r.declared.Never, r.own:
			return nil
		default:
			all = append(all, r.declared.Name)
		}
	}
	return all
}

// mostReplaced is how many members of a policy are replaced at a time (source 002, maxConcurrentReplacements): one, unless it says that more may
// be. What is limited by zones is marked together, and replaced one after the other.
func mostReplaced(repair *v1alpha1.Repair) int {
	if repair == nil || repair.MaxInFlight == nil || repair.MaxInFlight.Members == nil {
		return 1
	}
	return max(1, int(*repair.MaxInFlight.Members))
}

// PermitReplacement writes down that a member is being replaced. From then on it counts as one that is on its way, and no evidence from
// before decides any more: what let it begin is looked at once more. False: it is being replaced for another request, which alone ends that.
func PermitReplacement(policy Declared, entry v1alpha1.Replacing) (Action, bool) {
	if ReplacedForAnother(policy.Status, &entry) != nil {
		return Action{}, false
	}
	status := statusOf(&policy)
	status.Replacing = slices.DeleteFunc(status.Replacing, func(r v1alpha1.Replacing) bool { return r.RequestUID == entry.RequestUID })
	entry.StartTime = moment(entry.StartTime.Time)
	status.Replacing = append(status.Replacing, entry)
	status.Epoch++
	return policy.write(Permit, status, entry.ID+" is being replaced"), true
}

// ReplacedForAnother returns the entry of a policy's status, which may be nil, by which the member of an entry is being replaced for another request than
// the entry's; nil: it is not.
func ReplacedForAnother(status *v1alpha1.EvictionPolicyStatus, entry *v1alpha1.Replacing) *v1alpha1.Replacing {
	if status == nil {
		return nil
	}
	at := slices.IndexFunc(status.Replacing, func(r v1alpha1.Replacing) bool {
		return r.Role == entry.Role && r.ID == entry.ID && r.RequestUID != entry.RequestUID
	})
	if at < 0 {
		return nil
	}
	return &status.Replacing[at]
}

// ReleaseReplacement ends what PermitReplacement has written down for a request; false: there is nothing of it.
func ReleaseReplacement(policy Declared, request types.UID) (Action, bool) {
	at := ReplacingFor(policy.Status, request)
	if at < 0 {
		return Action{}, false
	}
	status := statusOf(&policy)
	why := "the replacement of " + status.Replacing[at].ID + " is over"
	status.Replacing = slices.Delete(status.Replacing, at, at+1)
	status.Epoch++
	return policy.write(Settle, status, why), true
}

// ReplacingFor returns the index of a request's entry in a policy's status, which may be nil; -1: there is none.
func ReplacingFor(status *v1alpha1.EvictionPolicyStatus, request types.UID) int {
	if status == nil {
		return -1
	}
	return slices.IndexFunc(status.Replacing, func(r v1alpha1.Replacing) bool { return r.RequestUID == request })
}
