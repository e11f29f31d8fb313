package eviction

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// LostStep says for people how a step for a member on a lost node stands.
type LostStep struct {
	Member v1alpha1.MemberRef
	Since  time.Time
	// Done: nothing is asked for any more, and nothing is left. Message says so. Otherwise it is a blocker.
	Done bool
	Blocker
}

// LostSteps are those that stand in a policy's status, in its order.
func LostSteps(policy *v1alpha1.EvictionPolicy) []LostStep {
	var all []LostStep
	steps := policy.Status.Preparations
	for i := range steps {
		if steps[i].For != v1alpha1.ForLost {
			continue
		}
		step := LostStep{Member: steps[i].MemberRef, Since: steps[i].StartTime.Time, Done: isDone(&steps[i])}
		step.Blocker = lostStepStands(policy, i)
		step.Message = fmt.Sprintf("%s for %s %s of policy %s/%s, for its lost node: %s",
			steps[i].Name, steps[i].Role, steps[i].ID, policy.Namespace, policy.Name, step.Message)
		step.Message, step.Remedy = text.Line(step.Message), text.Line(step.Remedy)
		all = append(all, step)
	}
	return all
}

// isDone reports whether nothing is to be asked for a step any more, and nothing of it is left.
func isDone(p *v1alpha1.PreparationStatus) bool {
	return p.State == v1alpha1.PreparationBegun && p.LostAsked() && p.Message == "" && p.Remaining == 0
}

// lostStepStands says what a step waits for.
func lostStepStands(policy *v1alpha1.EvictionPolicy, at int) Blocker {
	p := &policy.Status.Preparations[at]
	b := Blocker{Rule: p.Name, Reason: PreparationPending, Remedy: "wait until it is done"}
	ready := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady)
	switch earlier := beforeLost(policy, p); {
	case p.State == v1alpha1.PreparationUndoing:
		b.Message, b.Remedy = "it is being taken back, since its node answers again or its policy ends"+said(p.Message), "wait until it is taken back"
		if p.Message != "" {
			b.Remedy += ", and see that the system can do so"
		}
		return b
	case isDone(p):
		b.Message, b.Remedy = "done"+left(p)+"; it stands until the node answers again", ""
		return b
	case policy.Spec.Suspend:
		b.Message = "nothing is asked for, since the policy is suspended" + left(p)
		b.Remedy = fmt.Sprintf(`kubectl patch evictionpolicy %s -n %s --type merge -p '{"spec":{"suspend":false}}'`, policy.Name, policy.Namespace)
		return b
	case !p.LostAsked() && earlier != "":
		b.Message = "it is not asked for before " + earlier + " is done"
	case !p.LostAsked():
		b.Message = "it is written down and was not asked for yet: the system has not shown that it is needed"
	case p.Message == "":
		b.Message = "nothing is asked for now, by what the system says" + left(p)
	default:
		b.Message = fmt.Sprintf("asked for last at %s%s%s", p.LastRequestTime.UTC().Format(time.RFC3339), left(p), said(p.Message))
		b.Remedy = "wait until it is done, or do what it says"
	}
	if ready != nil && ready.Status == metav1.ConditionFalse {
		b.Message += "; the policy is not Ready: " + ready.Message
		b.Remedy = "see to the policy first: kubectl describe evictionpolicy " + policy.Name + " -n " + policy.Namespace
	}
	return b
}

// beforeLost is a step of the same member that comes before one and is under way; "": there is none.
func beforeLost(policy *v1alpha1.EvictionPolicy, p *v1alpha1.PreparationStatus) string {
	for i := range policy.Status.Preparations {
		other := &policy.Status.Preparations[i]
		switch {
		case other == p:
			return ""
		case other.For == v1alpha1.ForLost && other.Role == p.Role && other.ID == p.ID && other.Message != "":
			return other.Name
		}
	}
	return ""
}

// left says how much of a step is left, where its role counts that.
func left(p *v1alpha1.PreparationStatus) string {
	switch {
	case p.RemainingAtStart > 0:
		return fmt.Sprintf("; %d of %d left", p.Remaining, max(p.Remaining, p.RemainingAtStart))
	case p.Remaining > 0:
		return fmt.Sprintf("; %d left", p.Remaining)
	}
	return ""
}

func said(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}
