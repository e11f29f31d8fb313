package replacement

import (
	"fmt"
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// repairSettles is how long the status of a policy may lack the condition for which repair has made a request: it is written after that. By as much may the
// clocks differ of what makes the request and of what dates it.
const repairSettles = time.Minute

// Unfounded says why a request that repair has made has no reason any more; "": it has, or another has made it. What counts is the condition for which it was
// made, which stood before: one that came later has repair make another request, by all that it asks then. NodeTainted stands until the member is on
// another node (source 002).
func Unfounded(policy *v1alpha1.EvictionPolicy, request *v1alpha1.ReplacementRequest, now time.Time) string {
	made := request.CreationTimestamp.Time
	if request.Spec.Requester != RepairRequester {
		return ""
	}
	if repair := policy.Spec.Repair; repair == nil || repair.Mode != v1alpha1.RepairAutomatic {
		return fmt.Sprintf("repair has requested it, and EvictionPolicy %s does not have it repair members any more", policy.Name)
	}
	if now.Sub(made) < repairSettles {
		return ""
	}
	terms, member := TermsOf(policy.Spec.Repair), &request.Spec.Member
	for i := range policy.Status.Unhealthy {
		if u := &policy.Status.Unhealthy[i]; u.Role == member.Role && u.ID == member.ID && terms.founds(u, made, now) {
			return ""
		}
	}
	return "what was wrong with the member when repair requested it does not stand any more"
}

// founds reports whether a condition has stood for long enough that was there when a request was made.
func (t *Terms) founds(u *v1alpha1.UnhealthyMember, made, now time.Time) bool {
	return slices.ContainsFunc(u.Conditions, func(c v1alpha1.MemberCondition) bool {
		kind := ConditionType(c.Type)
		return t.counts(kind) && !c.StartTime.Add(t.window(kind)).After(now) && !c.StartTime.After(made.Add(repairSettles))
	})
}
