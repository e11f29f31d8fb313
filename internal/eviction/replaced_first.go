package eviction

import (
	"cmp"

	"usher.sh/usher/api/v1alpha1"
)

// replacedFirst blocks a member of a MemberSet that leaves by being replaced, so that nothing is prepared for an eviction that does not come: its pod goes with it.
// What its set has not noted yet is not known. Where its policy is being deleted no set replaces it any more.
func (j *judgement) replacedFirst() bool {
	if !j.entry.memberSet || j.policy.Deleted {
		return false
	}
	switch said := j.in.Pod.Annotations[v1alpha1.OnEvictionAnnotation]; said {
	case v1alpha1.PodRecreates, v1alpha1.PodFollows:
		return false
	case v1alpha1.PodIsReplaced:
		j.block(leavesByReplacement(j.policy.Key, j.in.Pod, "its set has members replaced that are evicted"))
	case v1alpha1.PodIsReplacedWhereCordoned:
		if j.in.Node != nil && !j.in.Node.Unschedulable {
			return false
		}
		j.block(leavesByReplacement(j.policy.Key, j.in.Pod, "node "+cmp.Or(j.in.Pod.Node, "of the pod")+" is cordoned, and its volumes can be used there alone"))
	default:
		j.block(departureUnknown(j.policy.Key, j.in.Pod))
	}
	return true
}
