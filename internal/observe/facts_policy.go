package observe

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// PolicyFacts returns what drains know of an EvictionPolicy. One in mode Audit says nothing, and neither does an entry whose selector cannot
// be read: its policy holds its pods. That such a one has pods stay is known all the same. Where roles wait for each other in a circle none is waited for.
func PolicyFacts(policy *v1alpha1.EvictionPolicy) *snapshot.Policy {
	facts := &snapshot.Policy{Namespace: policy.Namespace, Name: policy.Name, UID: policy.UID, ResourceVersion: policy.ResourceVersion}
	if policy.Spec.Audited() {
		return facts
	}
	for i := range policy.Status.Preparations {
		if step := &policy.Status.Preparations[i]; step.For != v1alpha1.ForLost && step.State == v1alpha1.PreparationBegun {
			facts.Prepares = append(facts.Prepares, step.PodUID)
		}
	}
	circle := snapshot.RoleCircle(&policy.Spec) != nil
	for i := range policy.Spec.Members {
		declared := &policy.Spec.Members[i]
		selector, err := metav1.LabelSelectorAsSelector(&declared.Selector)
		if err != nil || selector.Empty() {
			facts.LoadUnread = facts.LoadUnread || declared.Leaves == v1alpha1.LeavesLoad
			continue
		}
		member := snapshot.PolicyMember{Role: declared.Role, Selector: selector, Load: declared.Leaves == v1alpha1.LeavesLoad}
		if !circle {
			member.LeavesAfter = snapshot.RolesBefore(&policy.Spec, i)
		}
		facts.Members = append(facts.Members, member)
	}
	return facts
}
