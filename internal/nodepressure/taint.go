package nodepressure

import corev1 "k8s.io/api/core/v1"

// taintsOf returns the taints that the control plane puts on a node for its conditions.
func taintsOf(conditions []corev1.NodeConditionType) []corev1.Taint {
	keys := map[corev1.NodeConditionType]string{
		corev1.NodeMemoryPressure: corev1.TaintNodeMemoryPressure,
		corev1.NodeDiskPressure:   corev1.TaintNodeDiskPressure,
		corev1.NodePIDPressure:    corev1.TaintNodePIDPressure,
	}
	var out []corev1.Taint
	for _, c := range conditions {
		out = append(out, corev1.Taint{Key: keys[c], Effect: corev1.TaintEffectNoSchedule})
	}
	return out
}
