package eviction

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

const (
	systemAccounts = "system:serviceaccount:kube-system:"

	garbageCollector    = systemAccounts + "generic-garbage-collector"
	podGarbageCollector = systemAccounts + "pod-garbage-collector"
	namespaceController = systemAccounts + "namespace-controller"

	// Where kube-controller-manager runs without service account credentials, all its controllers are this user. Then the
	// rollout of a StatefulSet cannot be distinguished from the eviction of a pod by a taint, so nothing of it is excused but the
	// deletion of a namespace that is ending.
	controllerManager = "system:kube-controller-manager"

	scheduler = "system:kube-scheduler"
)

// owners are the users that delete pods as their own controllers, by the kind of the owner.
var owners = map[schema.GroupKind]string{
	{Group: "apps", Kind: "StatefulSet"}: systemAccounts + "statefulset-controller",
	{Group: "apps", Kind: "ReplicaSet"}:  systemAccounts + "replicaset-controller",
	{Group: "apps", Kind: "DaemonSet"}:   systemAccounts + "daemon-set-controller",
	{Group: "batch", Kind: "Job"}:        systemAccounts + "job-controller",
	{Kind: "ReplicationController"}:      systemAccounts + "replication-controller",
}

// evictors delete pods to take them off their nodes, whatever a policy says about DELETE: for a taint, since 1.29 and
// before, for a device's taint, and for a pod of higher priority.
var evictors = []string{
	systemAccounts + "taint-eviction-controller",
	systemAccounts + "node-controller",
	systemAccounts + "device-taint-eviction-controller",
	scheduler,
	controllerManager,
}

var exemptions = map[NoteKind]string{
	NotGoverned:    "no policy governs the pod",
	AlreadyLeaving: "the pod is terminating already",
	ByOwner:        "its own controller deletes the pod, which is no eviction",
	ByGarbage:      "garbage collection deletes the pod, which is no eviction",
	ByNamespace:    "its namespace is being deleted",
	ByKubelet:      "the kubelet of its node has ended the pod",
	ByReplacement:  "the member is being replaced, and nothing of the pod runs any more, or its MemberSet removes it",
	DeleteIsFree:   "the policy says that a DELETE is not its concern",
}

// exemption says why a request is no eviction, "" if it is one. What has ended is for its own controller to clear away, whatever keeps the
// policy from judging it. What no waiting lets go is its own controller's affair as well, unless something else holds it: that would try
// for ever, and a single server could never be updated. A grace period of 0 is never excused by the pod's leaving: it
// takes the object away while the containers may still run, and a StatefulSet would start the member a second time.
func exemption(in *AdmissionInput, j *judgement) NoteKind {
	switch {
	case j.entry == nil && j.verdict.Answer == Allowed:
		return NotGoverned
	case in.Verb == VerbDelete && byMachinery(in) != "":
		return byMachinery(in)
	case in.Pod.Terminating() && !in.forced():
		return AlreadyLeaving
	case in.Verb != VerbDelete || slices.Contains(evictors, in.User):
		return ""
	case slices.Contains(in.Self, in.User) && j.isReplaced() && !in.forced() && (nothingRuns(in) || j.runBy(in)):
		return ByReplacement
	case j.runBy(in) && !in.Pod.Ready && !in.forced():
		return ByOwner // one that has not joined, at the version at which its set saw that
	case in.Pod.Finished() && (ownsPod(in.User, in.Pod) || j.runBy(in)) && j.verdict.Answer != Allowed:
		return ByOwner
	case j.entry == nil:
		return ""
	case slices.Contains(j.entry.controllers, in.User), ownsPod(in.User, in.Pod) && (j.entry.ownerFree || j.onlyNever()):
		return ByOwner
	case j.entry.deletes == v1alpha1.DeleteAllow && !ownsPod(in.User, in.Pod):
		return DeleteIsFree
	}
	return ""
}

// runBy reports whether the caller is Usher itself, and runs the pod for a MemberSet.
func (j *judgement) runBy(in *AdmissionInput) bool {
	return j.entry != nil && j.entry.memberSet && slices.Contains(in.Self, in.User)
}

// onlyNever reports whether the pod may never leave, and nothing that may pass holds it as well.
func (j *judgement) onlyNever() bool {
	return j.verdict.Answer == Never && !slices.ContainsFunc(j.verdict.Blockers, func(b Blocker) bool { return !b.Never })
}

// force blocks what takes the pod's object away while its process still runs: it would count as gone, and the next member
// could go, while the system still sees it serving and its controller may start it a second time.
func (j *judgement) force(in *AdmissionInput) {
	j.block(forcedRemoval(in, j.entry != nil && j.entry.memberSet))
	if j.verdict.Answer == Allowed {
		j.verdict.Answer = Blocked
	}
}

// forced reports whether the pod's object would go at once. Where the caller says nothing, the pod's own grace period
// counts. On a node that is proven off no process is left behind.
func (in *AdmissionInput) forced() bool {
	if in.NodeOff {
		return false
	}
	if in.Grace != nil {
		return *in.Grace == 0
	}
	return in.Pod.Grace == 0
}

// mostLinger is how much of a grace period is waited out after a removal by force. Databases and virtual machines are given minutes, at
// most an hour, and the API takes any number from the pod's author: one such member would keep the others for years. Beyond it the
// member counts as gone, as one does whose end was not forced and whose system still reports it: its settle time begins, and what the
// system says after that decides about the next.
const mostLinger = time.Hour

// linger is how long the member may go on after its pod was removed by force: the kubelet gives its process the pod's own
// time once it has seen that the object is gone.
func (in *AdmissionInput) linger() time.Duration {
	if !in.forced() {
		return 0
	}
	return min(in.Pod.Grace, mostLinger) + permitLife
}

// byMachinery recognises the parts of Kubernetes that end pods as their work.
func byMachinery(in *AdmissionInput) NoteKind {
	switch in.User {
	case garbageCollector, podGarbageCollector:
		return ByGarbage
	case namespaceController, controllerManager:
		if in.NamespaceEnding {
			return ByNamespace
		}
		return ""
	}
	if in.Pod.Node != "" && in.User == "system:node:"+in.Pod.Node && slices.Contains(in.Groups, "system:nodes") {
		return ByKubelet
	}
	return ""
}

// OwnerAccounts are the users that Kubernetes' own controllers of pods are, sorted, with and without credentials for each.
func OwnerAccounts() []string { return append(slices.Sorted(maps.Values(owners)), controllerManager) }

func ownsPod(user string, pod *snapshot.Pod) bool {
	account, ok := owners[pod.Owner.GroupKind()]
	return ok && account == user
}
