package replacement

import (
	"fmt"
	"strings"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// Reason is what a replacement waits for, for machines.
type Reason string

// The reasons, beside those of a role's rules.
const (
	RepairDisabled       Reason = "RepairDisabled"
	PolicySuspended      Reason = "PolicySuspended"
	SystemUnavailable    Reason = "SystemUnavailable"
	MemberPaused         Reason = "MemberPaused"
	ConditionNotSeen     Reason = "ConditionNotSeen"
	LimitInvalid         Reason = "LimitInvalid"
	TooManyZonesAffected Reason = "TooManyZonesAffected"
	TooManyInFlight      Reason = "TooManyInFlight"

	StatefulSetMissing   Reason = "StatefulSetMissing"
	NodeNotKnown         Reason = "NodeNotKnown"
	NodeNotProvenOff     Reason = "NodeNotProvenOff"
	PredecessorRuns      Reason = "PredecessorRuns"
	PredecessorLeaving   Reason = "PredecessorLeaving"
	VolumeNotKnown       Reason = "VolumeNotKnown"
	MembershipNotKnown   Reason = "MembershipNotKnown"
	SuccessorMissing     Reason = "SuccessorMissing"
	SuccessorUnscheduled Reason = "SuccessorUnscheduled"
	SuccessorOnSameNode  Reason = "SuccessorOnSameNode"
	SuccessorNotReady    Reason = "SuccessorNotReady"
	SuccessorNotReported Reason = "SuccessorNotReported"
)

func repairDisabled(member string) Blocker {
	return Blocker{RepairDisabled, "it is unhealthy, and automatic repair is disabled", "usher replace " + member}
}

func memberPaused(why string) Blocker {
	return Blocker{MemberPaused, why, "wait until that is over"}
}

func notSeen(condition ConditionType) Blocker {
	return Blocker{ConditionNotSeen, fmt.Sprintf("%s is remembered, and whether it still holds could not be read", condition), "see the policy's status.system, and the log of usher's manager"}
}

func systemUnavailable(known bool) Blocker {
	message := "it is not known whether the system is available"
	if known {
		message = "the system is not available"
	}
	return Blocker{SystemUnavailable, message + ", and nothing is replaced until it is", "see the policy's status.system"}
}

func badStopAbove(err error) Blocker {
	return Blocker{LimitInvalid, "stopAbove.zones is neither a number nor a percentage: " + err.Error(), "correct the policy"}
}

func tooManyZones(affected []string, unzoned, all, most int) Blocker {
	where := text.List(affected, 5)
	if unzoned > 0 {
		where = strings.TrimPrefix(where+", and "+text.Count(unzoned, "member")+" whose zone is not known", ", and ")
	}
	return Blocker{
		TooManyZonesAffected,
		fmt.Sprintf("unhealthy members are in more than %d of %s (%s): that is a network or a cluster, not a member", most, text.Count(all, "zone"), where),
		"wait until fewer have some, or replace members one by one: usher replace",
	}
}

func inFlight(what string) Blocker {
	return Blocker{TooManyInFlight, what + " in flight (marked and not yet excluded), as many as may be at once", "wait"}
}

func suspended() Blocker {
	return Blocker{PolicySuspended, "the policy is suspended, and nothing is begun", "set spec.suspend of the policy to false"}
}

func noSet(set, pod string) Blocker {
	return Blocker{
		StatefulSetMissing, fmt.Sprintf("StatefulSet %s makes no pod %s: it is not there, is being deleted, or has fewer replicas", set, pod),
		"scale it so that it has the pod, or delete the request: what is not to be there needs no successor",
	}
}

func setUnknown(set string) Blocker {
	return Blocker{StatefulSetMissing, fmt.Sprintf("StatefulSet %s was not read", set), "see the log of usher's manager"}
}

func nodeNotKnown(member string) Blocker {
	return Blocker{
		NodeNotKnown, fmt.Sprintf("it is not known on which node %s was last, so that it may still run", member),
		"wait until its pod is bound to a node once",
	}
}

func nodeNotRead(node string) Blocker {
	return Blocker{NodeNotKnown, fmt.Sprintf("node %s was not read", node), "see the log of usher's manager"}
}

func nodeLost(node string) Blocker {
	return Blocker{
		NodeNotProvenOff, fmt.Sprintf("node %s does not report, and its machine is not proven off: what it runs may still run", node),
		fmt.Sprintf("a LostNodePolicy fences it; or, when the machine is certainly off: usher fence %s --confirm", node),
	}
}

func runs(member v1alpha1.MemberRef, node string) Blocker {
	return Blocker{
		PredecessorRuns, fmt.Sprintf("pod %s is on node %s, which reports", member.PodName, node),
		"what is lost is replaced; one that runs has to leave its node first",
	}
}

func cameBack(member v1alpha1.MemberRef, node string) Blocker {
	return Blocker{
		PredecessorRuns, fmt.Sprintf("pod %s has come back on node %s with the claims that were to go, and it is judged as a member that runs", member.PodName, node),
		fmt.Sprintf("usher evict %s; what is left of it goes then", member.PodName),
	}
}

func goneUnseen(pod, node string) Blocker {
	return Blocker{NodeNotProvenOff, fmt.Sprintf("pod %s was on node %s, and was not seen to go from there", pod, node), "wait; it is looked at again when the pod or the node changes"}
}

func settling(pod, node string) Blocker {
	return Blocker{PredecessorLeaving, fmt.Sprintf("pod %s was seen gone from node %s less than %s ago, and may have been deleted by force", pod, node, settle), "wait"}
}

func podLeaving(pod string) Blocker {
	return Blocker{PredecessorLeaving, fmt.Sprintf("pod %s is being deleted", pod), fmt.Sprintf("wait; what keeps it: kubectl get pod %s -o jsonpath='{.metadata.finalizers}'", pod)}
}

func claimLeaving(claim string) Blocker {
	return Blocker{PredecessorLeaving, fmt.Sprintf("claim %s is being deleted", claim), fmt.Sprintf("wait; what keeps it: kubectl get pvc %s -o jsonpath='{.metadata.finalizers}'", claim)}
}

func volumeUnread(claim, volume string) Blocker {
	return Blocker{
		VolumeNotKnown, fmt.Sprintf("volume %s of claim %s was not read, so it is not known whether it would be destroyed with the claim", volume, claim),
		"see the log of usher's manager",
	}
}

func listUnknown() Blocker {
	return Blocker{MembershipNotKnown, "the system's list of members is not known", "wait until the system can be asked"}
}

func noSuccessor(set, pod string) Blocker {
	return Blocker{SuccessorMissing, fmt.Sprintf("StatefulSet %s has not made pod %s yet", set, pod), "wait; what it says: kubectl describe statefulset " + set}
}

func unscheduled(pod, why string) Blocker {
	message := fmt.Sprintf("pod %s has no node yet", pod)
	if why != "" {
		message += ": " + why
	}
	return Blocker{SuccessorUnscheduled, message, "make room for it"}
}

func sameNode(pod, node string) Blocker {
	return Blocker{
		SuccessorOnSameNode, fmt.Sprintf("pod %s is on node %s again, where its predecessor was", pod, node),
		fmt.Sprintf("kubectl cordon %s, and replace it once more", node),
	}
}

func notReady(pod string) Blocker {
	return Blocker{SuccessorNotReady, fmt.Sprintf("pod %s is not Ready yet", pod), "wait; what it says: kubectl describe pod " + pod}
}

func notReported(member string) Blocker {
	return Blocker{SuccessorNotReported, fmt.Sprintf("the system does not report %s yet", member), "wait"}
}
