package replacement

import (
	"fmt"
	"slices"

	"usher.sh/usher/api/v1alpha1"
)

func memberMissing(member v1alpha1.MemberRef, set string) Blocker {
	return waiting(MemberMissing, fmt.Sprintf("MemberSet %s has no member %s", set, member.ID), "delete the request")
}

// WasMissing reports whether a request has found before that its MemberSet has no such member. It gets none later, since no id is given for which there is a request:
// numbers beyond do not make it one that the set has removed.
func WasMissing(status *v1alpha1.ReplacementRequestStatus, member v1alpha1.MemberRef, set string) bool {
	said := blockersOf([]Blocker{memberMissing(member, set)}, 1)[0]
	return slices.ContainsFunc(status.Blockers, func(b v1alpha1.ReplacementBlocker) bool { return b.Reason == said.Reason && b.Message == said.Message })
}

func markUnseen(set string) Blocker {
	return waiting(SetAwaited, fmt.Sprintf("MemberSet %s has not taken note of the request yet", set), "if it stays so, see the log of usher's manager")
}

func otherMark(member, set, other, namespace string) Blocker {
	return waiting(SetAwaited, fmt.Sprintf("MemberSet %s replaces %s by ReplacementRequest %s, and this one ends with that", set, member, other),
		fmt.Sprintf("wait; what that waits for: kubectl describe replacementrequest %s -n %s", other, namespace))
}

func setGrows(member, set, namespace string) Blocker {
	return waiting(SetGrows, fmt.Sprintf("MemberSet %s has too few members that do their work without %s", set, member),
		fmt.Sprintf("wait until another has joined; what that waits for: kubectl describe memberset %s -n %s", set, namespace))
}

func setEmpties(member, set, namespace string) Blocker {
	return waiting(SetEmpties, fmt.Sprintf("MemberSet %s has what is on %s moved to others", set, member),
		fmt.Sprintf("wait until nothing is left there; what that waits for: kubectl describe memberset %s -n %s", set, namespace))
}

func setAwaited(member, set string) Blocker {
	return waiting(SetAwaited, fmt.Sprintf("MemberSet %s has not begun to remove %s yet", set, member), "if it stays so, see the log of usher's manager")
}

func setRemoves(member, set, namespace string) Blocker {
	return waiting(PredecessorLeaving, fmt.Sprintf("MemberSet %s removes %s", set, member), fmt.Sprintf("wait; what that waits for: kubectl describe memberset %s -n %s", set, namespace))
}

func setIncomplete(set, namespace string) Blocker {
	return waiting(SuccessorMissing, fmt.Sprintf("the member is gone, and MemberSet %s has fewer members that do their work than it is to have", set),
		fmt.Sprintf("wait; what that waits for: kubectl describe memberset %s -n %s", set, namespace))
}

// NoSet is about a policy whose provider is a MemberSet that does not control it.
func NoSet(policy string) Blocker {
	return waiting(ProviderUnsupported, fmt.Sprintf("EvictionPolicy %s belongs to no MemberSet, and names one as its provider", policy),
		"set spec.members[].provider to statefulSet, patch or deletePod; or write a MemberSet, which makes its policy itself")
}
