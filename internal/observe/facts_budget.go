package observe

import (
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.sh/usher/internal/snapshot"
)

// budgetFacts returns what decisions know of a PodDisruptionBudget. The facts share
// pointers with the object, which must not be changed afterwards.
func budgetFacts(budget *policyv1.PodDisruptionBudget) *snapshot.Budget {
	policy := budget.Spec.UnhealthyPodEvictionPolicy
	return &snapshot.Budget{
		Namespace:       budget.Namespace,
		Name:            budget.Name,
		UID:             budget.UID,
		ResourceVersion: budget.ResourceVersion,
		Selector:        budgetSelector(budget.Spec.Selector),
		MinAvailable:    budget.Spec.MinAvailable,
		MaxUnavailable:  budget.Spec.MaxUnavailable,
		AlwaysAllow:     policy != nil && *policy == policyv1.AlwaysAllow,
		Observed:        budget.Status.ObservedGeneration >= budget.Generation,
		Allowed:         budget.Status.DisruptionsAllowed,
		Current:         budget.Status.CurrentHealthy,
		Desired:         budget.Status.DesiredHealthy,
		Expected:        budget.Status.ExpectedPods,
		Disrupted:       disrupted(budget.Status.DisruptedPods),
		BlockedSince:    blockedSince(budget.Status.Conditions),
	}
}

// budgetSelector reads a selector as the eviction API does: none matches nothing,
// an empty one everything, and one that cannot be read nothing.
func budgetSelector(selector *metav1.LabelSelector) labels.Selector {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return labels.Nothing()
	}
	return parsed
}

func disrupted(pods map[string]metav1.Time) map[string]time.Time {
	if len(pods) == 0 {
		return nil
	}
	at := make(map[string]time.Time, len(pods))
	for name, when := range pods {
		at[name] = when.Time
	}
	return at
}

func blockedSince(conditions []metav1.Condition) time.Time {
	condition := meta.FindStatusCondition(conditions, policyv1.DisruptionAllowedCondition)
	if condition == nil || condition.Status != metav1.ConditionFalse {
		return time.Time{}
	}
	return condition.LastTransitionTime.Time
}
