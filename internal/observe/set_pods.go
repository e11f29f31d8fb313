package observe

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// MadePod returns what policies see of the pod that a StatefulSet makes for an ordinal.
func MadePod(set *appsv1.StatefulSet, ordinal int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy()}
	pod.Namespace, pod.Name = set.Namespace, set.Name+"-"+strconv.Itoa(ordinal)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.StatefulSetPodNameLabel], pod.Labels[appsv1.PodIndexLabel] = pod.Name, strconv.Itoa(ordinal)
	return pod
}

// Ordinals returns the first ordinal of a StatefulSet's pods, and how many it has.
func Ordinals(set *appsv1.StatefulSet) (first, replicas int) {
	replicas = 1
	if set.Spec.Replicas != nil {
		replicas = int(*set.Spec.Replicas)
	}
	if set.Spec.Ordinals != nil {
		first = int(set.Spec.Ordinals.Start)
	}
	return first, replicas
}
