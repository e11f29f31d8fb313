package eviction

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// RunningMembers are those that a policy has among pods, of roles of which it matters which members are away, by their pods.
func RunningMembers(policy Declared, pods []*snapshot.Pod) map[types.UID]v1alpha1.MemberRef {
	members := map[types.UID]v1alpha1.MemberRef{}
	for _, pod := range pods {
		if member, ok := settlingMember(policy, pod); ok && running(pod) {
			members[pod.UID] = member
		}
	}
	return members
}

// settlingMember is the member in the pod, if its system is given time to find out that it is away. It shares no memory with the pod.
func settlingMember(policy Declared, pod *snapshot.Pod) (v1alpha1.MemberRef, bool) {
	if pod.Namespace != policy.Key.Namespace {
		return v1alpha1.MemberRef{}, false
	}
	claim, ok := policy.Policy.Claim(pod)
	if !ok || claim.Role == nil || claim.Member == "" || !policy.Policy.missed(claim.Role.Name) {
		return v1alpha1.MemberRef{}, false
	}
	member := claim.Ref(pod)
	member.ID, member.PodName, member.Node = strings.Clone(member.ID), strings.Clone(member.PodName), strings.Clone(member.Node)
	return member, true
}

func running(pod *snapshot.Pod) bool { return pod.Node != "" && !pod.Finished() }

// mostUnpermitted bounds the entries of members that went without a permit: the API takes a thousand entries, and permits need room.
const mostUnpermitted = 100

// noteUnpermitted makes entries for members that go without a permit, and for those whose pods are gone or have ended since the last
// look: a kubelet has evicted them, or a client removed them that admission lets through. Their system finds that out as late as it does
// of those that were let go, and after their pods are gone nothing else says so. The epoch stays: verdicts count pods that terminate
// already, and it grows with the entry's end. A policy that goes, or whose namespace does, makes none: its deletion would wait for each.
func (t *statusReconciler) noteUnpermitted(permits []v1alpha1.Leaving) {
	if t.in.ends() || t.in.Ending {
		return
	}
	for _, pod := range t.in.Pods {
		goes := pod.Terminating() && running(pod) && t.in.Presences[pod.UID] != SeenGone // the entry of one that a cache still shows may be over
		if !goes || permitOf(permits, pod.UID) >= 0 {
			continue
		}
		if member, ok := settlingMember(t.in.Policy, pod); ok {
			t.unpermitted(member, " terminates")
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(t.in.Ran)) {
		pod := t.pods[uid]
		if permitOf(permits, uid) < 0 && (pod == nil || pod.Finished()) {
			t.unpermitted(t.in.Ran[uid], " has ended")
		}
	}
}

func (t *statusReconciler) unpermitted(member v1alpha1.MemberRef, how string) {
	noted := 0
	for i := range t.status.Leaving {
		if t.status.Leaving[i].Requester == "" {
			noted++
		}
	}
	if noted >= mostUnpermitted {
		return
	}
	entry := v1alpha1.Leaving{MemberRef: member, StartTime: moment(t.in.Now)}
	if pod := t.pods[member.PodUID]; pod == nil || pod.Finished() {
		settled, until := t.settle(&entry)
		if settled {
			return
		}
		t.look(until)
	}
	t.noteRefused(&entry)
	t.status.Leaving = append(t.status.Leaving, entry)
	t.write(member.PodName+how+" without a permit", time.Time{})
}
