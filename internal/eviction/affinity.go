package eviction

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

// RequiredAffinity returns the nodes that a new pod asks for once it has to be where the waiter of its policy's nodeLock does its work: what it asks for
// already, and that, in each of its terms, since one of them is enough. It is nil where nothing is to be changed. It does not change own.
func RequiredAffinity(claim *Claim, own *corev1.Affinity) *corev1.NodeSelector {
	if claim.StateLabel == "" {
		return nil
	}
	serves := corev1.NodeSelectorRequirement{Key: claim.StateLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{v1alpha1.NodeLockServes}}
	if own == nil || own.NodeAffinity == nil || own.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{serves}}}}
	}
	required, changed := own.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.DeepCopy(), false
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		empty := len(term.MatchExpressions)+len(term.MatchFields) == 0 // it selects no node, and would with the requirement
		if empty || slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return isServes(&r, &serves) }) {
			continue
		}
		term.MatchExpressions, changed = append(term.MatchExpressions, serves), true
	}
	if !changed {
		return nil
	}
	return required
}

func isServes(r, serves *corev1.NodeSelectorRequirement) bool {
	return r.Key == serves.Key && r.Operator == serves.Operator && slices.Equal(r.Values, serves.Values)
}
