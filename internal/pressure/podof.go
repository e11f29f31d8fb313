package pressure

import corev1 "k8s.io/api/core/v1"

// PodOf returns all that an API object says of a pod; Usage is left to those who measure.
func PodOf(p *corev1.Pod) Pod { return Pod{Namespace: p.Namespace, Name: p.Name, UID: p.UID} }
