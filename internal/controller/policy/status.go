package policy

import (
	"cmp"
	"context"
	"slices"
	"time"

	"usher.sh/usher/internal/act"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
)

// observedRenewal is how often the time of the evidence is renewed while nothing else changes.
const observedRenewal = time.Minute

// seeing is how often what is seen is written by itself at most, while members are on their way or prepared and the conditions stay as
// they are: what becomes of them is written soon, and takes it along. It is as long after that, which may have been written before the
// members could be judged anew.
const seeing = 10 * time.Second

// writeStatus writes what is seen, and returns when to look again.
func (s *reconciler) writeStatus(ctx context.Context, f *facts, seen v1alpha1.EvictionPolicyStatus) (time.Duration, error) {
	if equality.Semantic.DeepEqual(f.policy.Status.Conditions, seen.Conditions) {
		wait := s.throttle.unsettled(f.key(), seeing, time.Now())
		if f.underWay() {
			wait = max(wait, s.throttle.unwritten(f.key(), seeing, time.Now()))
		}
		if wait > 0 {
			return wait, nil
		}
	}
	answer := s.Act.WriteSeen(ctx, f.policy, seen)
	s.wrote(f, seen, answer)
	return idle, accepted(answer, "writing the status of policy", f.policy.Name)
}

func (f *facts) key() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.policy)}
}

// underWay reports whether a member is on its way, or prepared.
func (f *facts) underWay() bool {
	return len(f.policy.Status.Leaving)+len(f.policy.Status.Preparations) > 0
}

// wrote notes what was written of what is seen.
func (s *reconciler) wrote(f *facts, seen v1alpha1.EvictionPolicyStatus, answer answers.Answer) {
	if answer.Code == answers.Accepted {
		s.throttle.wrote(f.key(), time.Now())
		s.recordChange(f.policy, f.policy.Status.Conditions, seen.Conditions)
	}
}

func same(before, seen *v1alpha1.EvictionPolicyStatus) bool {
	return before.ObservedGeneration == seen.ObservedGeneration && before.MemberCount == seen.MemberCount &&
		equality.Semantic.DeepEqual(before.Conditions, seen.Conditions) && equality.Semantic.DeepEqual(before.Roles, seen.Roles) &&
		equality.Semantic.DeepEqual(before.System, seen.System) && slices.EqualFunc(before.Blocked, seen.Blocked, sameBlocker)
}

// recordChange makes an event of a Ready condition whose reason has changed.
func (s *reconciler) recordChange(policy *v1alpha1.EvictionPolicy, before, after []metav1.Condition) {
	was, is := meta.FindStatusCondition(before, v1alpha1.ConditionReady), meta.FindStatusCondition(after, v1alpha1.ConditionReady)
	if was != nil && was.Reason == is.Reason {
		return
	}
	kind := corev1.EventTypeWarning
	if is.Status == metav1.ConditionTrue || is.Reason == ReasonAsking {
		kind = corev1.EventTypeNormal
	}
	s.events.Eventf(policy, nil, kind, is.Reason, "Observe", "%s", act.EventNote(is.Message))
}

// seen is the part of the status that says what is seen.
func (f *facts) seen() v1alpha1.EvictionPolicyStatus {
	members := f.members()
	status := v1alpha1.EvictionPolicyStatus{
		ObservedGeneration: f.policy.Generation,
		MemberCount:        int32(len(members)),
		Roles:              f.roles(members),
		Blocked:            f.blocked(members),
		System:             f.system(),
		Conditions:         slices.Clone(f.policy.Status.Conditions),
	}
	f.verdict(members).set(&status.Conditions, f.policy.Generation, f.now)
	return status
}

// member is a pod with the policy's claim on it, the claims of others, and the verdict.
type member struct {
	pod     *snapshot.Pod
	claims  []eviction.Claim
	own     eviction.Claim
	verdict eviction.Verdict
}

func (f *facts) members() []member {
	var members []member
	effort, rosters := eviction.NewCostBudget(), map[snapshot.Key]*eviction.Roster{}
	if f.own.Policy.AsksForRoster() {
		rosters[f.own.Key] = eviction.NewRoster(f.own, f.pods)
	}
	for _, pod := range f.pods {
		claims := eviction.Claims(f.all, pod)
		i := slices.IndexFunc(claims, func(c eviction.Claim) bool { return c.Policy == f.own.Key })
		if i >= 0 {
			members = append(members, member{pod, claims, claims[i], f.judge(pod, effort, rosters)})
		}
	}
	return members
}

// roles counts members. While one has just been let go, so that all wait for the next evidence, who may leave is not counted anew.
func (f *facts) roles(members []member) []v1alpha1.RoleStatus {
	counts := map[string]*v1alpha1.RoleStatus{}
	for _, entry := range f.policy.Spec.Members {
		counts[entry.Role] = &v1alpha1.RoleStatus{Role: entry.Role}
	}
	for _, m := range members {
		count := counts[f.policy.Spec.Members[m.own.Entry].Role]
		count.MemberCount++
		if m.verdict.Answer == eviction.Allowed {
			count.EvictableCount++
		}
	}
	for _, former := range f.policy.Status.Roles {
		if count := counts[former.Role]; count != nil && f.waitsForEvidence() {
			count.EvictableCount = min(former.EvictableCount, count.MemberCount)
		}
	}
	var roles []v1alpha1.RoleStatus
	for _, count := range counts {
		roles = append(roles, *count)
	}
	slices.SortFunc(roles, func(a, b v1alpha1.RoleStatus) int { return cmp.Compare(a.Role, b.Role) })
	return roles
}

// judge takes a member by itself, at the time of the evidence: in the background that is older than a decision allows.
func (f *facts) judge(pod *snapshot.Pod, effort *expression.CostBudget, rosters map[snapshot.Key]*eviction.Roster) eviction.Verdict {
	now := f.now
	if f.evidence != nil {
		now = f.evidence.Observed
	}
	return eviction.Judge(eviction.Input{
		Now: now, Pod: pod, Node: f.nodes[pod.Node], Policies: f.all, Evidence: f.evidence, Peers: f.peers, Rosters: rosters, CostBudget: effort,
		Ungoverned: f.policy.Spec.Audited(),
	})
}

// system is what the evidence says. Its time is renewed only so often: each renewal is a write.
func (f *facts) system() v1alpha1.SystemStatus {
	before := f.policy.Status.System
	status := v1alpha1.SystemStatus{Kind: f.own.Policy.Kind(), LastObservedTime: before.LastObservedTime, Summary: before.Summary}
	switch {
	case f.evidence == nil:
		return status
	case f.evidence.Error != "":
		status.Error = f.evidence.Error
		return status
	}
	status.Summary = f.evidence.Summary
	changed := status.Summary != before.Summary || before.Error != "" || before.LastObservedTime == nil
	if changed || f.evidence.Observed.Sub(before.LastObservedTime.Time) >= observedRenewal {
		status.LastObservedTime = &metav1.Time{Time: f.evidence.Observed.Truncate(time.Second)}
	}
	return status
}
