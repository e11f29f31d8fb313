package memberset

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// Reason is what a set waits for, for machines.
type Reason string

// The reasons.
const (
	TemplateInvalid   Reason = "TemplateInvalid"
	PolicyInvalid     Reason = "PolicyInvalid"
	MemberNotKnown    Reason = "MemberNotKnown"
	MemberNotListed   Reason = "MemberNotListed"
	StrangerListed    Reason = "StrangerListed"
	CoordinatorLost   Reason = "CoordinatorLost"
	NameTaken         Reason = "NameTaken"
	ObjectsRemain     Reason = "ObjectsRemain"
	TooManyMembers    Reason = "TooManyMembers"
	ReplicasUnsafe    Reason = "ReplicasUnsafe"
	SystemNotFormed   Reason = "SystemNotFormed"
	MembershipUnknown Reason = "MembershipUnknown"
	ClusterMismatch   Reason = "ClusterMismatch"
	MembershipChanges Reason = "MembershipChanges"
	PodUnscheduled    Reason = "PodUnscheduled"
	PodNotReady       Reason = "PodNotReady"
	PodEnded          Reason = "PodEnded"
	MemberJoins       Reason = "MemberJoins"
	MemberLeaves      Reason = "MemberLeaves"
	RequestWaits      Reason = "RequestWaits"
	PermitMissing     Reason = "PermitMissing"
	MemberEmpties     Reason = "MemberEmpties"
	MemberRefills     Reason = "MemberRefills"
	MemberExcluded    Reason = "MemberExcluded"
	PodTerminates     Reason = "PodTerminates"
	ClaimTerminates   Reason = "ClaimTerminates"
	ServiceTerminates Reason = "ServiceTerminates"
	ClaimMissing      Reason = "ClaimMissing"
	PolicyTerminates  Reason = "PolicyTerminates"
	VolumeNotKnown    Reason = "VolumeNotKnown"
	WriteNotAccepted  Reason = "WriteNotAccepted"
	NotRead           Reason = "NotRead"
	DepartureNotKnown Reason = "DepartureNotKnown"
	UpdateWaits       Reason = "UpdateWaits"
	Suspended         Reason = "Suspended"
	UpdateDisabled    Reason = "UpdateDisabled"
	RemovalWaits      Reason = "RemovalWaits"
	RemovalDisabled   Reason = "RemovalDisabled"
	ZoneMaintained    Reason = "ZoneMaintained"
	NotConfigured     Reason = "NotConfigured"
	ContainerUnknown  Reason = "ContainerUnknown"
)

func templateInvalid(group string, err error) Blocker {
	return Blocker{Reason: TemplateInvalid, Message: fmt.Sprintf("group %s: %v", group, err), Remedy: "correct spec.groups", Never: true}
}

func memberUnknown(pod, set string) Blocker {
	return Blocker{
		Reason: MemberNotKnown, Never: true, Message: fmt.Sprintf("pod %s belongs to the set, and status.members does not have it: the status was lost", pod),
		Remedy: fmt.Sprintf("restore the status of MemberSet %s (kubectl edit --subresource=status), or take the pod's ownerReference off and run it otherwise", set),
	}
}

// podNotOurs is about a pod that carries the set's label, by which the set's policy takes it for a member.
func podNotOurs(pod string, set *v1alpha1.MemberSet) Blocker {
	return Blocker{
		Reason: MemberNotKnown, Message: fmt.Sprintf("pod %s carries the label %s=%s, and was not made for this MemberSet", pod, v1alpha1.MemberSetLabel, set.Name),
		Remedy: fmt.Sprintf("take the label off, or set it to the MemberSet that the pod is of: kubectl label pod %s -n %s %s-", pod, set.Namespace, v1alpha1.MemberSetLabel),
	}
}

func strangerListed(e *Entry) Blocker {
	return Blocker{
		Reason: StrangerListed, Message: fmt.Sprintf("the list of members has %s at %v, which is none of this set", cmp.Or(e.Name, e.ID), e.Addresses),
		Remedy: "see that spec.system leads to the members of this set alone",
	}
}

func strangerJoins(id string, e *Entry) Blocker {
	return Blocker{
		Reason:  StrangerListed,
		Message: fmt.Sprintf("member %s cannot join: the list of members has %s at %v as a learner, which is none of this set, and one learner is taken in at a time", id, cmp.Or(e.Name, e.ID), e.Addresses),
		Remedy:  fmt.Sprintf("where nothing is to run there, take it off the list: etcdctl member remove %s; else have it promoted: etcdctl member promote %s", e.ID, e.ID),
	}
}

func strangerFound(cluster string) Blocker {
	return Blocker{
		Reason: StrangerListed, Message: fmt.Sprintf("cluster %s answers, and the first members of this set have not formed it", cluster),
		Remedy: "see that spec.system leads to the members of this set alone",
	}
}

func notListed(id string, set *v1alpha1.MemberSet) Blocker {
	return Blocker{
		Reason: MemberNotListed, Message: fmt.Sprintf("member %s was on the list of members, and is not any more: it cannot come back by itself", id),
		Remedy: fmt.Sprintf("have it replaced: usher replace %s -n %s", id, set.Namespace),
	}
}

func objectsRemain(names []string, set *v1alpha1.MemberSet) Blocker {
	return Blocker{
		Reason: ObjectsRemain, Message: fmt.Sprintf("no member was made yet, and these carry the label %s=%s already: %s", v1alpha1.MemberSetLabel, set.Name, strings.Join(names, ", ")),
		Remedy: fmt.Sprintf("where none of it is to be kept, delete them (namespace %s); else name the set otherwise", set.Namespace),
	}
}

func tooManyMembers() Blocker {
	return Blocker{
		Reason: TooManyMembers, Message: fmt.Sprintf("there are %d members, and no more can be kept account of", mostMembers), Remedy: "ask for fewer replicas, or for another set",
	}
}

func replicasUnsafe(g *v1alpha1.MemberGroup, wanted int32) Blocker {
	return Blocker{
		Reason: ReplicasUnsafe, Never: true,
		Message: fmt.Sprintf("group %s: replicas %d would be a system that no member can leave, or one with too many; it stays at %d", g.Name, *g.Replicas, wanted),
		Remedy:  fmt.Sprintf("set the replicas of group %s to 1 at first, or to %d to %d; from these it does not shrink to 1", g.Name, fewestMembers, mostVoters),
	}
}

func listNotKnown(why string) Blocker {
	return Blocker{Reason: MembershipUnknown, Message: "the system's list of members is not known: " + why, Remedy: "see that its members run, and that spec.system leads to them"}
}

func anotherCluster(answers, formed string) Blocker {
	return Blocker{
		Reason: ClusterMismatch, Message: fmt.Sprintf("cluster %s answers, and the members formed cluster %s: none is taken in or removed", answers, formed),
		Remedy: "see that spec.system, and the Service that it names, lead to the members of this set alone",
	}
}

func awaitsTurn(id string) Blocker {
	return Blocker{Reason: MembershipChanges, Message: fmt.Sprintf("member %s joins once the list of members changes for no other", id), Remedy: "wait"}
}

// unscheduled is about a pod for which the scheduler has found no node. Claims are those of its own that are bound to no volume, which may be the cause, or wait for a
// node themselves.
func unscheduled(id, why string, claims []string, namespace string) Blocker {
	b := Blocker{
		Reason: PodUnscheduled, Message: fmt.Sprintf("pod %s is on no node: %s", id, cmp.Or(why, "it was not looked for yet")), Remedy: "make room for it, or change the template of its group",
	}
	if len(claims) > 0 && why != "" {
		b.Message += fmt.Sprintf("; %s bound to no volume: %s", are(len(claims)), strings.Join(claims, ", "))
		b.Remedy += fmt.Sprintf("; kubectl describe pvc %s -n %s says why a claim is not bound", strings.Join(claims, " "), namespace)
	}
	return b
}

// are begins a sentence about claims.
func are(n int) string {
	if n == 1 {
		return "its claim is"
	}
	return "its claims are"
}

// notReady is about a pod on a node. Waiting is what a container waits for that does not start; "": none does.
func notReady(id, waiting, namespace string) Blocker {
	b := Blocker{
		Reason: PodNotReady, Message: fmt.Sprintf("pod %s is not Ready", id), Remedy: fmt.Sprintf("if it stays so: kubectl describe pod %s -n %s, and its log", id, namespace),
	}
	if waiting != "" {
		b.Message += ": " + waiting
		b.Remedy = fmt.Sprintf("see kubectl describe pod %s -n %s; where its template cannot start, correct it in spec.groups", id, namespace)
	}
	return b
}

func podEnded(id string, p *Pod, namespace string) Blocker {
	return Blocker{
		Reason:  PodEnded,
		Message: fmt.Sprintf("pod %s has ended: %s; it is made anew at %s", id, cmp.Or(p.Ended, "it does not say why"), p.Created.Add(remakeAfter).UTC().Format(time.RFC3339)),
		Remedy:  fmt.Sprintf("if it does so again, see why: kubectl describe pod %s -n %s, and kubectl logs %s -n %s", id, namespace, id, namespace),
	}
}

func notWhole(id string) Blocker {
	return Blocker{Reason: MemberJoins, Message: fmt.Sprintf("member %s does not have its whole part in the system yet", id), Remedy: "wait"}
}

func leavesList(id string) Blocker {
	return Blocker{Reason: MemberLeaves, Message: fmt.Sprintf("member %s is taken off the list of members", id), Remedy: "wait"}
}

func memberEmpties(id string) Blocker {
	return Blocker{Reason: MemberEmpties, Message: fmt.Sprintf("what member %s has is moved to others before it goes", id), Remedy: "wait; or delete its ReplacementRequest, which cancels"}
}

func memberRefills(id string) Blocker {
	return Blocker{Reason: MemberRefills, Message: fmt.Sprintf("the system was asked to keep nothing on member %s, and that is taken back", id), Remedy: "wait"}
}

func memberExcluded(id, namespace string) Blocker {
	return Blocker{
		Reason:  MemberExcluded,
		Message: fmt.Sprintf("member %s is excluded from the system, and no request of its own stands: another client did that, or Usher, and that was not written down, or was forgotten with its EvictionPolicy", id),
		Remedy:  fmt.Sprintf("take the exclusion back in the system; or have the member replaced: usher replace %s -n %s", id, namespace),
	}
}

func memberPrepared(id string, set *v1alpha1.MemberSet) Blocker {
	return Blocker{
		Reason:  MemberExcluded,
		Message: fmt.Sprintf("member %s is excluded from the system for an eviction, which EvictionPolicy %s prepares or takes back", id, set.Name),
		Remedy:  fmt.Sprintf("wait; see what the eviction waits for: usher why %s -n %s", id, set.Namespace),
	}
}

func grows(id string) Blocker {
	return Blocker{Reason: MemberJoins, Message: fmt.Sprintf("member %s goes on being emptied once its group has enough members without it", id), Remedy: "wait"}
}

func awaitsRequest(id, request, namespace string) Blocker {
	return Blocker{
		Reason: RequestWaits, Message: fmt.Sprintf("member %s goes once ReplacementRequest %s lets it", id, request),
		Remedy: fmt.Sprintf("see what that waits for: kubectl describe replacementrequest %s -n %s", request, namespace),
	}
}

func permitMissing(id, request string, set *v1alpha1.MemberSet) Blocker {
	return Blocker{
		Reason: PermitMissing, Message: fmt.Sprintf("member %s is removed, and EvictionPolicy %s does not say so, by which others stay; waiting until it does", id, set.Name),
		Remedy: fmt.Sprintf("if it stays so: kubectl describe replacementrequest %s -n %s", request, set.Namespace),
	}
}

func podTerminates(id, namespace string) Blocker {
	return Blocker{
		Reason: PodTerminates, Message: fmt.Sprintf("pod %s ends", id),
		Remedy: fmt.Sprintf("where its node is lost, prove that off, or delete the Node; else see its finalizers: kubectl get pod %s -n %s -o yaml", id, namespace),
	}
}

func withoutAddress(id, namespace string) Blocker {
	return Blocker{
		Reason: PodUnscheduled, Message: fmt.Sprintf("Service %s has no IP, by which other members reach member %s", id, id), Remedy: fmt.Sprintf("delete it, and it is made anew: kubectl delete service %s -n %s", id, namespace),
	}
}

func claimTerminates(name, namespace string) Blocker {
	return Blocker{
		Reason: ClaimTerminates, Message: fmt.Sprintf("claim %s is being deleted", name), Remedy: fmt.Sprintf("if it stays, see its finalizers: kubectl get pvc %s -n %s -o yaml", name, namespace),
	}
}

func serviceTerminates(id, namespace string) Blocker {
	return Blocker{
		Reason: ServiceTerminates, Message: fmt.Sprintf("Service %s is being deleted", id), Remedy: fmt.Sprintf("if it stays, see its finalizers: kubectl get service %s -n %s -o yaml", id, namespace),
	}
}

func claimMissing(name, id string, set *v1alpha1.MemberSet, formed bool) Blocker {
	b := Blocker{
		Reason: ClaimMissing, Message: fmt.Sprintf("claim %s of member %s is missing, and is not made again: with an empty disk the member would have forgotten its votes", name, id),
		Remedy: fmt.Sprintf("have it replaced: usher replace %s -n %s", id, set.Namespace),
	}
	if !formed {
		b.Remedy = fmt.Sprintf("where nothing is to be kept, delete MemberSet %s and its claims, and write it anew (namespace %s)", set.Name, set.Namespace)
	}
	return b
}

func policyTerminates(set *v1alpha1.MemberSet) Blocker {
	return Blocker{
		Reason: PolicyTerminates, Message: fmt.Sprintf("EvictionPolicy %s is being deleted, and is made anew once it is gone", set.Name),
		Remedy: fmt.Sprintf("if it stays: kubectl describe evictionpolicy %s -n %s", set.Name, set.Namespace),
	}
}

func volumeNotKnown(claim, volume string) Blocker {
	return Blocker{
		Reason: VolumeNotKnown, Message: fmt.Sprintf("volume %s of claim %s is to stay, and could not be read", volume, claim), Remedy: "usher install --member-sets gives the manager the right to it",
	}
}

// Unread is about something that could not be read.
func Unread(what, why, remedy string) Blocker {
	return Blocker{Reason: NotRead, Message: fmt.Sprintf("%s could not be read: %s", what, why), Remedy: remedy}
}

// PolicyWrong is about what the set's policy would be wrong in, so that no member could leave. Its entries are the set's groups.
func PolicyWrong(path, message string) Blocker {
	return Blocker{
		Reason: PolicyInvalid, Never: true, Message: fmt.Sprintf("%s: %s", strings.Replace(path, "spec.members", "spec.groups", 1), message),
		Remedy: "correct it in the MemberSet (usher roles lists the built-in roles)",
	}
}

// Awaited is about a change of the system's list that is under way.
func Awaited(member, missing string) Blocker {
	of := "the system"
	if member != "" {
		of = "member " + member
	}
	return Blocker{Reason: MembershipChanges, Message: fmt.Sprintf("%s: %s", of, missing), Remedy: "wait"}
}

// WriteRefused is about an action that was not accepted. Never: it will not be.
func WriteRefused(a *Action, why, remedy string, never bool) Blocker {
	return Blocker{Reason: WriteNotAccepted, Message: fmt.Sprintf("%s of %s was not accepted: %s", a.Kind, cmp.Or(a.Name, a.Member, "the set's policy"), why), Remedy: remedy, Never: never}
}

// containersUnknown is about annotations of an object that have containers crash which there are none of.
func containersUnknown(kind, name string, lacks, has []string, namespace string) Blocker {
	const most = 5
	return Blocker{
		Reason: ContainerUnknown, Never: true,
		Message: fmt.Sprintf("annotations of %s %s, which begin with %s, have containers crash that there are none of: %s", kind, name, v1alpha1.CrashLoopPrefix, text.List(lacks, most)),
		Remedy: fmt.Sprintf("name one of %s; and take what is there off: kubectl annotate %s %s -n %s %s%s-",
			text.List(has, most), kind, name, namespace, v1alpha1.CrashLoopPrefix, lacks[0]),
	}
}
