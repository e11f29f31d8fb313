package policy

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

// audit makes the labels of a namespace and of its pods say which of them policies in mode Audit claim. A cache is believed in all of it:
// where it is behind, for a moment nothing is said of what would be refused.
func (s *reconciler) audit(ctx context.Context, namespace *corev1.Namespace, policies []eviction.Declared) error {
	wanted := len(policies) > 0
	value, labelled := namespace.Labels[v1alpha1.AuditedLabel]
	if wanted != labelled || wanted && value != "true" {
		answer := s.Act.LabelNamespace(ctx, namespace.Name, namespace.UID, v1alpha1.AuditedLabel, wanted)
		if err := accepted(answer, "labelling namespace", namespace.Name); err != nil {
			return err
		}
	}
	pods, err := s.Gatherer.Policies.Pods(ctx, namespace.Name)
	if err != nil {
		return err
	}
	var failed []error
	for _, pod := range pods {
		label, labelled := pod.Labels[v1alpha1.AuditLabel]
		policy := eviction.GuardedBy(policies, pod)
		if labelled == (policy != "") && label == eviction.LabelValue(policy) {
			continue
		}
		failed = append(failed, accepted(s.Act.AuditPod(ctx, pod, policy), "labelling pod", pod.Name))
	}
	return errors.Join(failed...)
}

// beside returns the policies of a policy's namespace that are in the same mode: those of the other have nothing to do with its members.
func (s *reconciler) beside(ctx context.Context, policy *v1alpha1.EvictionPolicy) ([]*v1alpha1.EvictionPolicy, error) {
	if policy.Spec.Audited() {
		return s.Gatherer.Policies.Audited(ctx, policy.Namespace)
	}
	return s.Gatherer.Policies.Policies(ctx, policy.Namespace)
}

// labels are those by which admission finds the namespace and the pods of a policy.
func labels(policy *v1alpha1.EvictionPolicy) (namespace, pod string) {
	if policy.Spec.Audited() {
		return v1alpha1.AuditedLabel, v1alpha1.AuditLabel
	}
	return v1alpha1.GovernedLabel, v1alpha1.PolicyLabel
}
