package replacement

import (
	"fmt"

	"usher.sh/usher/api/v1alpha1"
)

func (t *TargetRef) String() string { return t.Kind + " " + t.Name }

func targetMissing(target *TargetRef, namespace string) Blocker {
	return waiting(TargetMissing, fmt.Sprintf("%s, which is patched to have the member replaced, is not in namespace %s", target, namespace),
		"compare with spec.members[].provider.patch.target of the policy")
}

func targetUnknown(target *TargetRef) Blocker {
	return waiting(NotRead, fmt.Sprintf("whether %s says that the member is to be replaced is not known", target), "see the log of usher's manager")
}

func podMissing(member string) Blocker {
	return waiting(MemberMissing, fmt.Sprintf("member %s has no pod that could be deleted", member), "delete the request: its controller makes another pod by itself")
}

func runsReady(member v1alpha1.MemberRef, node, namespace string) Blocker {
	return waiting(PredecessorRuns, fmt.Sprintf("pod %s is Ready on node %s, which reports", member.PodName, node),
		fmt.Sprintf("have it leave, under its budgets: usher evict %s -n %s", member.PodName, namespace))
}

func operatorAwaited(member string, target *TargetRef, namespace string) Blocker {
	return waiting(OperatorAwaited, fmt.Sprintf("%s says that %s is to be replaced, and its operator has not removed it yet", target, member),
		fmt.Sprintf("wait; what the operator says: kubectl describe %s/%s -n %s, and its log", target.Kind, target.Name, namespace))
}

func targetGone(member string, target *TargetRef, namespace string) Blocker {
	return waiting(OperatorAwaited, fmt.Sprintf("%s, which was patched to have %s replaced, is gone, and the member is there: its operator may not replace it any more", target, member),
		fmt.Sprintf("wait; kubectl get %s -n %s shows what there is by now; or delete the request, which ends %s after that was asked", target.Kind, namespace, forsakenAfter))
}

func notTakenBack(waitsFor Blocker) Blocker {
	waitsFor.Message = "the request was deleted, and what was asked for cannot be undone: " + waitsFor.Message
	return waitsFor
}

func undoneInVain(target *TargetRef) Blocker {
	b := waiting(UndoWithoutEffect, fmt.Sprintf("what spec.members[].provider.patch.undo says is so of %s, and what do says is still so too", target), "correct undo in the policy so that it takes do back")
	b.Never = true
	return b
}

func noneMade(role string) Blocker {
	return waiting(SuccessorMissing, fmt.Sprintf("no pod of role %s was made since the predecessor began to go", role), "wait; what its controller says: its events and its log")
}

// ProviderChanged is about a policy that has a StatefulSet make the successor, after another controller may have been asked for it.
func ProviderChanged(policy string) Blocker {
	b := waiting(ProviderUnsupported, fmt.Sprintf("EvictionPolicy %s says by now that a StatefulSet makes the successor, and another controller may have been asked for it before", policy),
		"set spec.members[].provider in it as it was; or delete the request, and create another where the member is still to be replaced")
	b.Never = true
	return b
}

// NoPatch is about a patch whose expressions have no values for the member.
func NoPatch(why string) Blocker {
	return waiting(ProviderUnsupported, "what is to be patched for a successor is not known: "+why,
		"see that spec.members[].provider.patch of the policy speaks of member.id where the pod may be gone")
}

// NotPatchable is about a target whose kind cannot be patched in the policy's namespace, or that the patch does not fit.
func NotPatchable(target *v1alpha1.PatchTarget, why string) Blocker {
	b := waiting(ProviderUnsupported, fmt.Sprintf("%s %s cannot be patched as the policy says: %s", target.Kind, target.Name, why), "correct spec.members[].provider.patch of the policy")
	b.Never = true
	return b
}
