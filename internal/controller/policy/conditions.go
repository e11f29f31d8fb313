package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/text"
)

// Reasons of a policy's conditions.
const (
	ReasonGoverning         = "Governing"
	ReasonAuditing          = "Auditing"
	ReasonNoMembers         = "NoMembers"
	ReasonAsking            = "Asking"
	ReasonInvalid           = "Invalid"
	ReasonSuspended         = "Suspended"
	ReasonClaimedTwice      = "ClaimedTwice"
	ReasonMemberUnknown     = "MemberUnknown"
	ReasonSystemUnreachable = "SystemUnreachable"
	ReasonEvidenceTooLarge  = "EvidenceTooLarge"
	ReasonRuleFailed        = "RuleFailed"
	ReasonFactMissing       = "FactMissing"
	ReasonUndoing           = "Undoing"
	ReasonSettling          = "Settling"
	ReasonLabelling         = "Labelling"
)

// verdict is what the three conditions say together.
type verdict struct {
	ready       metav1.ConditionStatus
	reason      string
	message     string
	reconciling bool // it is being worked on, and will pass by itself
	stalled     bool // a person has to do something
}

func ready(reason, message string) verdict {
	return verdict{ready: metav1.ConditionTrue, reason: reason, message: message}
}

func stalled(reason, message string) verdict {
	return verdict{ready: metav1.ConditionFalse, reason: reason, message: message, stalled: true}
}

func reconciling(reason, message string) verdict {
	return verdict{ready: metav1.ConditionFalse, reason: reason, message: message, reconciling: true}
}

// onlyAudited is said of whatever is true of a policy in mode Audit, whose members go wherever else it would be said that they stay.
const onlyAudited = "; the policy is in mode Audit: what it would refuse is let through"

// verdict names the first thing that keeps the policy from doing what it is for.
func (f *facts) verdict(members []member) verdict {
	v := f.enforcing(members)
	if f.policy.Spec.Audited() && f.policy.DeletionTimestamp == nil {
		v.message += onlyAudited
		if v.reason == ReasonGoverning {
			v.reason = ReasonAuditing
		}
	}
	return v
}

// enforcing is the verdict on a policy in mode Enforce.
func (f *facts) enforcing(members []member) verdict {
	switch {
	case f.policy.DeletionTimestamp != nil:
		return reconciling(f.deleting())
	case len(f.problems) > 0:
		return stalled(ReasonInvalid, f.problemText())
	case f.policy.Spec.Suspend:
		return verdict{
			ready: metav1.ConditionFalse, reason: ReasonSuspended,
			message: "spec.suspend is set: nothing is prepared, no pod is evicted, and evictions are refused; unset it to go on",
		}
	}
	if text := claimedTwice(members); text != "" {
		return stalled(ReasonClaimedTwice, text)
	}
	if text := unknownMembers(members); text != "" {
		return stalled(ReasonMemberUnknown, text)
	}
	if n := f.unguarded(members); n > 0 || !f.guarded {
		return reconciling(ReasonLabelling, f.labelling(n))
	}
	return f.systemVerdict(members)
}

func (f *facts) labelling(unguarded int) string {
	text := fmt.Sprintf("admission does not guard everything yet: the namespace is labelled: %t, %s without a label",
		f.guarded, text.Count(unguarded, "member"))
	if f.refusal != "" {
		text += "; the last attempt: " + strings.ReplaceAll(f.refusal, "\n", "; ")
	}
	return text
}

// unguarded counts the members whose DELETE admission should see and does not.
func (f *facts) unguarded(members []member) int {
	n := 0
	_, label := labels(f.policy)
	for _, m := range members {
		if m.pod.Labels[label] == "" && !m.pod.Terminating() && eviction.GuardedBy(f.all, m.pod) != "" {
			n++
		}
	}
	return n
}

func (f *facts) systemVerdict(members []member) verdict {
	switch {
	case f.evidence == nil:
		return reconciling(ReasonAsking, "the system is being asked for the first time; its members stay until it has answered")
	case f.evidence.TooLarge:
		return stalled(ReasonEvidenceTooLarge, "members whose rules need the system's word stay where they are: "+f.evidence.Error+
			"; ask the system for less, or have the administrator raise the manager's memory limit and its flag --evidence-memory")
	case f.evidence.Error != "":
		return reconciling(ReasonSystemUnreachable, "the system cannot be asked, so members whose rules need its word stay where they are: "+f.evidence.Error)
	case len(members) == 0:
		return ready(ReasonNoMembers, "no pod of the namespace matches a selector in spec.members")
	}
	if text := failedRules(members); text != "" {
		return stalled(ReasonRuleFailed, text)
	}
	if text := missingFacts(members); text != "" {
		return reconciling(ReasonFactMissing, text)
	}
	return ready(ReasonGoverning, fmt.Sprintf("%s, and the system answers", text.Count(len(members), "member")))
}

// failedRules names the rules that have no answer. Where the system has not said everything that is for it to put right.
func failedRules(members []member) string {
	var texts []string
	for _, m := range members {
		blockers := m.verdict.Blockers
		if missingFact(blockers) != nil {
			continue
		}
		for i := range blockers {
			if blockers[i].Reason == eviction.RuleFailed {
				texts = append(texts, m.pod.Name+": "+blockers[i].Message)
			}
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return "members stay where they are because rules of their role have no answer, and are to be corrected: " + enumerate(texts, "; ")
}

// missingFacts names what the system does not say of any member: it may say it later, and it may be misspelt in a rule. Of a
// single member something may always be missing, such as one that is just joining.
func missingFacts(members []member) string {
	var texts []string
	for _, m := range members {
		missing := missingFact(m.verdict.Blockers)
		if missing == nil {
			return ""
		}
		if !slices.Contains(texts, missing.Message) {
			texts = append(texts, missing.Message)
		}
	}
	return "the system answers, but reports of no member all that the rules of its role ask for, so they stay where they are; " +
		"either it will, or a rule asks by a wrong name: " + enumerate(texts, "; ")
}

// missingFact is the first blocker that says so, nil if none does.
func missingFact(blockers []eviction.Blocker) *eviction.Blocker {
	at := slices.IndexFunc(blockers, func(b eviction.Blocker) bool { return b.Reason == eviction.FactMissing })
	if at < 0 {
		return nil
	}
	return &blockers[at]
}

func (f *facts) problemText() string {
	texts := make([]string, len(f.problems))
	for i, p := range f.problems {
		texts[i] = p.Path + ": " + p.Message
	}
	return "the policy cannot be used, so its members stay where they are: " + enumerate(texts, "; ")
}

// claimedTwice names the pods that other entries claim as well.
func claimedTwice(members []member) string {
	var pods, policies []string
	for _, m := range members {
		if len(m.claims) < 2 {
			continue
		}
		pods = append(pods, m.pod.Name)
		for _, claim := range m.claims {
			entry := fmt.Sprintf("%s (spec.members[%d])", claim.Policy.Name, claim.Entry)
			if !slices.Contains(policies, entry) {
				policies = append(policies, entry)
			}
		}
	}
	if len(pods) == 0 {
		return ""
	}
	return fmt.Sprintf("%s claimed more than once, by %s, and stay where they are until only one claims them: %s",
		text.Count(len(pods), "pod"), strings.Join(policies, " and "), enumerate(pods, ", "))
}

func unknownMembers(members []member) string {
	var texts []string
	for _, m := range members {
		if m.own.Error != "" {
			texts = append(texts, m.pod.Name+": "+m.own.Error)
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return fmt.Sprintf("the id of %s cannot be determined from spec.members[].id: %s", text.Count(len(texts), "pod"), enumerate(texts, "; "))
}

// enumerate names the first few and counts the rest, so that a status stays readable.
func enumerate(texts []string, separator string) string {
	const most = 5
	if len(texts) <= most {
		return strings.Join(texts, separator)
	}
	return fmt.Sprintf("%s%sand %d more", strings.Join(texts[:most], separator), separator, len(texts)-most)
}

// set writes Ready always, and the other two only while they are true, as kstatus has it.
func (v verdict) set(conditions *[]metav1.Condition, generation int64, now time.Time) {
	put := func(kind string, status metav1.ConditionStatus) {
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: kind, Status: status, Reason: v.reason, Message: text.Lines(v.message),
			ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		})
	}
	put(v1alpha1.ConditionReady, v.ready)
	for kind, holds := range map[string]bool{v1alpha1.ConditionReconciling: v.reconciling, v1alpha1.ConditionStalled: v.stalled} {
		if holds {
			put(kind, metav1.ConditionTrue)
		} else {
			meta.RemoveStatusCondition(conditions, kind)
		}
	}
	slices.SortFunc(*conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}
