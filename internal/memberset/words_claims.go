package memberset

import (
	"fmt"

	"usher.sh/usher/api/v1alpha1"
)

// claimAdded is about a claim template that a group got after a member was made.
func claimAdded(template string, m *v1alpha1.SetMember, set *v1alpha1.MemberSet) Blocker {
	return Blocker{
		Reason:  ClaimMissing,
		Message: fmt.Sprintf("claim %s is none that member %s was made with, and is not made for it: the member is replaced by one that has it", claimName(template, m.ID), m.ID),
		Remedy:  fmt.Sprintf("%s; or take volumeClaimTemplate %s out of group %s again", awaitReplaced(set), template, m.Group),
	}
}

// claimDropped is about a claim template that a group does not have any more, by that name, and whose claim a member has its data on.
func claimDropped(template string, m *v1alpha1.SetMember, set *v1alpha1.MemberSet) Blocker {
	return Blocker{
		Reason:  ClaimMissing,
		Message: fmt.Sprintf("pod %s is not made anew: its data is on claim %s, and its group has no volumeClaimTemplate %s any more; the member is replaced", m.ID, claimName(template, m.ID), template),
		Remedy:  fmt.Sprintf("%s; or give group %s its volumeClaimTemplate %s back as it was, and the pod is made anew with its data", awaitReplaced(set), m.Group, template),
	}
}

func awaitReplaced(set *v1alpha1.MemberSet) string {
	return fmt.Sprintf("wait until it is; what that waits for: kubectl get replacementrequests -n %s", set.Namespace)
}
