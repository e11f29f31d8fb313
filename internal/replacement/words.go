package replacement

import (
	"fmt"
	"strings"
	"time"

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

	AnotherIsReplaced    Reason = "AnotherIsReplaced" // this one is, for another request; of rules the same
	StatefulSetMissing   Reason = "StatefulSetMissing"
	EarlierPodNotReady   Reason = "EarlierPodNotReady"
	NodeNotKnown         Reason = "NodeNotKnown"
	NodeNotProvenOff     Reason = "NodeNotProvenOff"
	NodeUnready          Reason = "NodeUnready"
	PredecessorRuns      Reason = "PredecessorRuns"
	PredecessorLeaving   Reason = "PredecessorLeaving"
	VolumeNotKnown       Reason = "VolumeNotKnown"
	MembershipNotKnown   Reason = "MembershipNotKnown"
	MembershipUnchanged  Reason = "MembershipUnchanged"
	SourceMissing        Reason = "SourceMissing"
	ProviderMissing      Reason = "ProviderMissing"
	ProviderUnsupported  Reason = "ProviderUnsupported"
	MemberMissing        Reason = "MemberMissing"
	MemberShared         Reason = "MemberShared"
	TargetMissing        Reason = "TargetMissing"
	OperatorAwaited      Reason = "OperatorAwaited"
	SetAwaited           Reason = "SetAwaited"
	SetGrows             Reason = "SetGrows"
	SetEmpties           Reason = "SetEmpties"
	UndoWithoutEffect    Reason = "UndoWithoutEffect"
	WriteNotAccepted     Reason = "WriteNotAccepted"
	NotRead              Reason = "NotRead"
	SuccessorMissing     Reason = "SuccessorMissing"
	SuccessorUnscheduled Reason = "SuccessorUnscheduled"
	SuccessorOnSameNode  Reason = "SuccessorOnSameNode"
	SuccessorNotReady    Reason = "SuccessorNotReady"
	SuccessorNotReported Reason = "SuccessorNotReported"
)

func waiting(reason Reason, message, remedy string) Blocker {
	return Blocker{Reason: reason, Message: message, Remedy: remedy}
}

// replaceCommand asks for a member by its id, which it has also without a pod.
func replaceCommand(member v1alpha1.MemberRef, namespace, policy string) string {
	return fmt.Sprintf("usher replace %s -n %s --policy %s --role %s", text.ShellWord(member.ID), namespace, policy, member.Role)
}

func repairDisabled(command string) Blocker {
	return waiting(RepairDisabled, "it is unhealthy, and automatic repair is disabled", command)
}

func memberPaused(why, command string) Blocker {
	return waiting(MemberPaused, why, "wait until that is over, or replace it for good: "+command)
}

// requestPaused is about a request of repair: as long as it stands, a person's command follows it.
func requestPaused(member v1alpha1.MemberRef, node, command string) Blocker {
	return waiting(
		MemberPaused, fmt.Sprintf("node %s, on which %s was, is cordoned and reports: it may be given back", node, member.ID),
		"wait until that is over; or delete the request, and replace it for good: "+command,
	)
}

func notSeen(condition ConditionType) Blocker {
	return waiting(ConditionNotSeen, fmt.Sprintf("%s is remembered, and whether it still holds could not be read", condition), "see the policy's status.system, and the log of usher's manager")
}

func systemUnavailable(known bool) Blocker {
	message := "it is not known whether the system is available"
	if known {
		message = "the system is not available"
	}
	return waiting(SystemUnavailable, message+", and nothing is replaced until it is", "see the policy's status.system")
}

func badStopAbove(err error) Blocker {
	return waiting(LimitInvalid, "stopAbove.zones is neither a number nor a percentage: "+err.Error(), "correct the policy")
}

func tooManyZones(affected []string, unzoned, all, most int) Blocker {
	where := text.List(affected, 5)
	if unzoned > 0 {
		where = strings.TrimPrefix(where+", and "+text.Count(unzoned, "member")+" whose zone is not known", ", and ")
	}
	return waiting(
		TooManyZonesAffected,
		fmt.Sprintf("unhealthy members are in more than %d of %s (%s): that is a network or a cluster, not a member", most, text.Count(all, "zone"), where),
		"wait until fewer have some, or replace members one by one: usher replace",
	)
}

func inFlight(what string) Blocker {
	return waiting(TooManyInFlight, what+" in flight (marked and not yet excluded), as many as may be at once", "wait")
}

func suspended() Blocker {
	return waiting(PolicySuspended, "the policy is suspended, and nothing is begun", "set spec.suspend of the policy to false")
}

// orAbandon adds to a remedy what a person can do who accepts that what only this member has is lost.
func orAbandon(remedy string, member v1alpha1.MemberRef, namespace, policy string) string {
	command := replaceCommand(member, namespace, policy) + " --abandon-data"
	return strings.TrimPrefix(remedy+"; or, where its data is lost for good and is given up: "+command, "; ")
}

func permittedFor(member, request, namespace string) Blocker {
	return waiting(
		AnotherIsReplaced, fmt.Sprintf("%s is being replaced for request %s already, and this one goes on once that is over", member, request),
		fmt.Sprintf("wait; kubectl get replacementrequest %s -n %s shows what that waits for", request, namespace),
	)
}

func noSet(set, pod string) Blocker {
	return waiting(
		StatefulSetMissing, fmt.Sprintf("StatefulSet %s makes no pod %s: it is not there, is being deleted, or has fewer replicas", set, pod),
		"scale it so that it has the pod, or delete the request: what is not to be there needs no successor",
	)
}

// afterAnother is about a set that makes its pods in order. Of one that is begun already the place is taken that a replacement of the earlier member needs.
func afterAnother(set *Set, pod, namespace string, begun bool) Blocker {
	remedy := fmt.Sprintf("see what it lacks: kubectl describe pod %s -n %s; or, where it is lost as well, replace it first: usher replace %[1]s -n %[2]s", set.After, namespace)
	if begun {
		remedy += ", with spec.repair.maxInFlight of its policy set to {members: 2}"
	}
	return waiting(
		EarlierPodNotReady, fmt.Sprintf("StatefulSet %s makes its pods in order (podManagementPolicy: OrderedReady), and makes no pod %s as long as pod %s is not Ready", set.Name, pod, set.After), remedy,
	)
}

func setUnknown(set string) Blocker {
	return waiting(StatefulSetMissing, fmt.Sprintf("StatefulSet %s was not read", set), "see the log of usher's manager")
}

func nodeNotKnown(member string) Blocker {
	return waiting(
		NodeNotKnown, fmt.Sprintf("it is not known on which node %s was last, so that it may still run", member),
		"wait until its pod is bound to a node once; where its node is certainly gone, delete its claims and then its pod yourself",
	)
}

func nodeNotRead(node string) Blocker {
	return waiting(NodeNotKnown, fmt.Sprintf("node %s was not read", node), "see the log of usher's manager")
}

func nodeLost(node, fence string) Blocker {
	remedy := fmt.Sprintf("a LostNodePolicy fences it; or, when the machine is certainly off: usher fence %s --confirm", node)
	if fence != "" {
		remedy = fmt.Sprintf("its fence %s is under way; what that waits for: usher why node/%s", fence, node)
	}
	return waiting(NodeNotProvenOff, fmt.Sprintf("node %s does not report, and its machine is not proven off: what it runs may still run", node), remedy)
}

func runs(member v1alpha1.MemberRef, node, namespace string) Blocker {
	return waiting(
		PredecessorRuns, fmt.Sprintf("pod %s is on node %s, which reports", member.PodName, node),
		fmt.Sprintf("what is lost is replaced; to replace one that runs: kubectl cordon %s, and usher evict %s -n %s", node, member.PodName, namespace),
	)
}

// runsAnew is about a pod without claims that its set has made elsewhere, and that its system does not take for its member's successor.
func runsAnew(member v1alpha1.MemberRef, node, namespace string, order Order) Blocker {
	b := runs(member, node, namespace)
	if order == LeavesFirst {
		b.Message += fmt.Sprintf(", and no claim of its StatefulSet has its data: it was made anew there, and %s can join again only once its entry is off its system's list", member.ID)
		b.Remedy = "take the entry off the list of members and add it anew at the same address, as the system's documentation says; then delete the request"
		return b
	}
	b.Message += fmt.Sprintf(", and its system's list does not say that the one that it has as %s has failed", member.ID)
	b.Remedy = "wait until it does; or, where it lists no earlier one any more, delete the request"
	return b
}

func cameBack(member v1alpha1.MemberRef, node, namespace string) Blocker {
	return waiting(
		PredecessorRuns, fmt.Sprintf("pod %s has come back on node %s with the claims that were to go: it is judged as a member that runs, and what is left of it goes once it has left", member.PodName, node),
		fmt.Sprintf("usher evict %s -n %s", member.PodName, namespace),
	)
}

func goneUnseen(pod, node string) Blocker {
	return waiting(NodeNotProvenOff, fmt.Sprintf("pod %s was on node %s, and was not seen to go from there", pod, node), "wait; it is looked at again when the pod or the node changes")
}

func settling(pod, node string, within time.Duration) Blocker {
	return waiting(PredecessorLeaving, fmt.Sprintf("pod %s was seen gone from node %s less than %s ago, its grace and %s, and may have been deleted by force", pod, node, within, settle), "wait")
}

func unreported(pod, node string) Blocker {
	return waiting(NodeNotProvenOff, fmt.Sprintf("node %s, from which pod %s was seen gone, has not renewed its Lease since the pod had the time to end", node, pod), "wait until it does, or counts as unreachable")
}

func nodeNotReady(node string) Blocker {
	return waiting(NodeUnready, fmt.Sprintf("node %s reports that it is not ready, and may be unable to end what it runs", node), "mend or fence it: kubectl describe node "+node)
}

func podLeaving(pod, namespace string) Blocker {
	return waiting(PredecessorLeaving, fmt.Sprintf("pod %s is being deleted", pod), fmt.Sprintf("wait; what keeps it: kubectl get pod %s -n %s -o jsonpath='{.metadata.finalizers}'", pod, namespace))
}

// podEnding is about a pod that is being deleted, and what its node does about that.
func podEnding(pod string, node *Node, namespace string) Blocker {
	b := podLeaving(pod, namespace)
	switch node.State {
	case NodeDeleted:
		b.Message += fmt.Sprintf(", and node %s, which would end it, is gone", node.Name)
		b.Remedy = fmt.Sprintf("wait; Kubernetes' garbage collector of pods removes it, in about a minute; what keeps it longer: kubectl get pod %s -n %s -o jsonpath='{.metadata.finalizers}'", pod, namespace)
	case NodeLost:
		b.Message += fmt.Sprintf(", and node %s, which would end it, does not report", node.Name)
		b.Remedy = "wait until it does; or " + nodeLost(node.Name, node.Fence).Remedy
	case NodeNotReady:
		b.Message += fmt.Sprintf(", and node %s, which would end it, reports that it is not ready", node.Name)
		b.Remedy = nodeNotReady(node.Name).Remedy
	case NodeUnknown, NodeAlive, NodeOff:
	}
	return b
}

func claimLeaving(claim, namespace string) Blocker {
	return waiting(PredecessorLeaving, fmt.Sprintf("claim %s is being deleted", claim), fmt.Sprintf("wait; what keeps it: kubectl get pvc %s -n %s -o jsonpath='{.metadata.finalizers}'", claim, namespace))
}

func volumeUnread(claim, volume string) Blocker {
	return waiting(
		VolumeNotKnown, fmt.Sprintf("volume %s of claim %s was not read, so it is not known whether it would be destroyed with the claim", volume, claim),
		"see the log of usher's manager",
	)
}

func listUnknown(why string) Blocker {
	message := "the system's list of members is not known"
	if why != "" {
		message += ": " + why
	}
	return waiting(MembershipNotKnown, message, "see that the system answers: the policy's status.system, and the log of usher's manager")
}

// listElsewhere is about a member of a system that does not answer again: one that was restored from a snapshot has another list, with other ids.
func listElsewhere(why string) Blocker {
	return waiting(MembershipNotKnown, "the system's list that the member was on is not known any more: "+why,
		fmt.Sprintf("delete the request, which ends %s after this step began; then see that the members are those that the system is to have, and replace the member anew where it is lost", forsakenAfter))
}

func notJoined(member string) Blocker {
	return waiting(SuccessorNotReported, fmt.Sprintf("%s is not on its system's list under another id than its predecessor's, or does not do its work there yet", member),
		"wait; where it does not come, compare its address with status.predecessor.registration")
}

func notListed(member string) Blocker {
	return waiting(MembershipNotKnown, fmt.Sprintf("the system's list of members does not have %s, so that it is not known what its successor replaces", member),
		"compare with spec.members[].id of the policy; where it was taken off already, add it again as the system's documentation says, and delete its pod and claims yourself")
}

func foreignEntry(entry *v1alpha1.MemberRegistration, pod, namespace string) Blocker {
	return waiting(MembershipNotKnown, fmt.Sprintf("what the system's list has under its id is at %s, and that is not by its name pod %s of namespace %s", text.List(entry.Addresses, 3), pod, namespace),
		fmt.Sprintf("give the member an address that stays and names it: %s.SERVICE.%s.svc of a headless Service", pod, namespace))
}

func leaveStays(member string) Blocker {
	return waiting(MembershipUnchanged, fmt.Sprintf("the request is deleted while %s leaves by the steps of its policy: those that were asked for are not taken back", member),
		"see whether the system still has it as a member, and have it join again as the system's documentation says")
}

// MembershipRefused is about a change of the system's list of members that it does not make, or not yet.
func MembershipRefused(doing ActionKind, member, said string, final bool) Blocker {
	b := waiting(MembershipUnchanged, fmt.Sprintf("%s joins its system: %s", member, said), "wait; where it says the same for long, see what the system itself lists, and mend that")
	if doing == Leave {
		b.Message = fmt.Sprintf("%s is to leave its system's list of members: %s", member, said)
	}
	if final {
		b.Never, b.Remedy = true, "change the list of members as the system's documentation says; where that is a right that is missing, give it to the policy's user"
	}
	return b
}

// TemplateRefused is about a StatefulSet whose pods would not join their system as successors.
func TemplateRefused(refusal, remedy string) Blocker {
	b := waiting(ProviderUnsupported, refusal, remedy)
	b.Never = true
	return b
}

func noSuccessor(set, pod, namespace string) Blocker {
	return waiting(SuccessorMissing, fmt.Sprintf("StatefulSet %s has not made pod %s yet", set, pod), "wait; what it says: kubectl describe statefulset "+set+" -n "+namespace)
}

// unscheduled is about a successor without a node. Unbound are the names of its claims that have no volume: their StorageClass may be what it lacks.
func unscheduled(pod, why string, unbound []string, namespace string, order Order) Blocker {
	message, remedy := fmt.Sprintf("pod %s has no node yet", pod), "make room for it"
	if why != "" {
		message += ": " + why
	}
	if len(unbound) > 0 {
		remedy += fmt.Sprintf(", or see what its claims wait for: kubectl describe pvc %s -n %s", strings.Join(unbound, " "), namespace)
	}
	return waiting(SuccessorUnscheduled, message, remedy+"; "+lostAgain(order))
}

func successorLost(pod, node string, order Order) Blocker {
	return waiting(SuccessorNotReady, fmt.Sprintf("pod %s is on node %s, which is gone", pod, node), "wait until it is made anew; "+lostAgain(order))
}

// lostAgain is what a person does where a successor is lost before it does its work.
func lostAgain(order Order) string {
	const remedy = "where its volume is on a node that does not come back, delete its claims and then the pod"
	if order == LeavesFirst || order == LeavesLast {
		return remedy + ", after its entry in the system's list of members"
	}
	return remedy
}

func sameNode(pod, node string) Blocker {
	return waiting(
		SuccessorOnSameNode, fmt.Sprintf("pod %s is on node %s again, where its predecessor was", pod, node),
		fmt.Sprintf("delete the request, which accepts it there; or kubectl cordon %s, and delete its claims and then the pod", node),
	)
}

func notReady(pod, namespace string) Blocker {
	return waiting(SuccessorNotReady, fmt.Sprintf("pod %s is not Ready yet", pod), "wait; what it says: kubectl describe pod "+pod+" -n "+namespace)
}

func notReported(member string) Blocker {
	return waiting(SuccessorNotReported, fmt.Sprintf("the system does not report %s yet", member), "wait")
}

// NoSource is about a policy that is not there, or will not be.
func NoSource(policy string) Blocker {
	b := waiting(SourceMissing, fmt.Sprintf("EvictionPolicy %s is not there, or is being deleted", policy), "create it, or delete the request")
	b.Never = true
	return b
}

// AuditedSource is about a policy in mode Audit, which has no effect.
func AuditedSource(policy string) Blocker {
	b := waiting(SourceMissing, fmt.Sprintf("EvictionPolicy %s is in mode Audit, in which nothing is replaced", policy), "set its spec.mode to Enforce, or delete the request")
	b.Never = true
	return b
}

// NoProvider is about a policy that does not say how a successor comes about.
func NoProvider(policy, role string) Blocker {
	b := waiting(ProviderMissing, fmt.Sprintf("EvictionPolicy %s does not say how a successor of role %s comes about", policy, role), "set spec.members[].provider in it")
	b.Never = true
	return b
}

// NotOfSet is about a pod that no StatefulSet makes.
func NotOfSet(pod string) Blocker {
	b := waiting(ProviderUnsupported, fmt.Sprintf("pod %s is not made by a StatefulSet, and its policy says that one makes the successor", pod), "correct spec.members[].provider of the policy")
	b.Never = true
	return b
}

// NewIdentityUnsupported is about a system whose list of members has to be changed for a successor, and that Usher cannot ask for that.
func NewIdentityUnsupported(role, system string) Blocker {
	b := waiting(ProviderUnsupported, fmt.Sprintf("a successor of role %s has another identity, and a member of a system of kind %s cannot be taken off its list by Usher", role, system),
		"replace it as the system's documentation says, and delete the request")
	b.Never = true
	return b
}

// NoMember is about a member of which neither a pod is there nor a StatefulSet that would make it.
func NoMember(role, id, policy string) Blocker {
	return waiting(MemberMissing, fmt.Sprintf("no pod, and no StatefulSet of the namespace, has member %s of role %s in policy %s", id, role, policy),
		"compare with spec.members[].id of the policy; or delete the request")
}

// SharedMember is about several pods that give the id of the member.
func SharedMember(id string, pods []string) Blocker {
	return waiting(MemberShared, fmt.Sprintf("pods %s all are member %s, so that it is not known which of them is to be replaced", text.List(pods, 5), id),
		"wait until one of them is left; or see whether spec.members[].id of the policy distinguishes them")
}

// WriteRefused is about a write that the apiserver did not accept.
func WriteRefused(doing, name, said, remedy string) Blocker {
	return waiting(WriteNotAccepted, fmt.Sprintf("%s of %s was refused: %s", doing, name, said), remedy)
}

// Unread is about something that the manager could not read.
func Unread(what, said, remedy string) Blocker {
	return waiting(NotRead, fmt.Sprintf("%s could not be read: %s", what, said), remedy)
}
