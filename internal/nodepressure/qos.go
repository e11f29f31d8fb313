package nodepressure

import corev1 "k8s.io/api/core/v1"

// QoSOf returns a pod's class: the one in its status or, where there is none, the one its resources give it.
func QoSOf(p *corev1.Pod) corev1.PodQOSClass {
	if p.Status.QOSClass != "" {
		return p.Status.QOSClass
	}
	if r := p.Spec.Resources; r != nil && podLevel(r.Requests, r.Limits) {
		return classOf(*r)
	}
	class := corev1.PodQOSClass("")
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			class = alike(class, classOf(list[i].Resources))
		}
	}
	if class == "" {
		return corev1.PodQOSBestEffort
	}
	return class
}

func classOf(r corev1.ResourceRequirements) corev1.PodQOSClass {
	class := corev1.PodQOSClass("")
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		switch {
		case !request.Equal(limit):
			return corev1.PodQOSBurstable
		case request.IsZero():
			class = alike(class, corev1.PodQOSBestEffort)
		default:
			class = alike(class, corev1.PodQOSGuaranteed)
		}
	}
	return class
}

// alike returns the class of two parts: what differs is Burstable.
func alike(a, b corev1.PodQOSClass) corev1.PodQOSClass {
	if a == "" || a == b {
		return b
	}
	return corev1.PodQOSBurstable
}
