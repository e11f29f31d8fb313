package nodepressure

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// requestsOf returns what a pod asks for, its overhead included. What its kubelet reports as allocated to the pod goes
// before the sum of its containers, of which the status is silent until they are created.
func requestsOf(p *corev1.Pod) Requests {
	memory := containersRequest(p, corev1.ResourceMemory)
	out := Requests{}
	if p.Spec.Resources != nil {
		if own, found := p.Spec.Resources.Requests[corev1.ResourceMemory]; found {
			memory, out.PodMemory = own.DeepCopy(), true
		}
	}
	if total, known := allottedMemory(p); known {
		memory = total
	}
	disk := containersRequest(p, corev1.ResourceEphemeralStorage)
	out.Memory = withOverhead(p, corev1.ResourceMemory, memory)
	out.Disk = withOverhead(p, corev1.ResourceEphemeralStorage, disk)
	return out
}

// withOverhead adds what the pod costs beside its containers; a pod that asks for nothing gets no request from that.
func withOverhead(p *corev1.Pod, name corev1.ResourceName, q resource.Quantity) int64 {
	if overhead, found := p.Spec.Overhead[name]; found && !q.IsZero() {
		q.Add(overhead)
	}
	return q.Value()
}

// containersRequest returns the most that a pod's containers ask for at one time: the main containers with the sidecars, or
// an init container with the sidecars that were started before it.
func containersRequest(p *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	var total, sidecars, peak resource.Quantity
	for i := range p.Spec.Containers {
		total.Add(p.Spec.Containers[i].Resources.Requests[name])
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		own := c.Resources.Requests[name]
		at := sidecars.DeepCopy()
		at.Add(own)
		if restartable(c) {
			sidecars.Add(own)
			total.Add(own)
		}
		if at.Cmp(peak) > 0 {
			peak = at
		}
	}
	if peak.Cmp(total) > 0 {
		return peak
	}
	return total
}

func restartable(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// podLevel reports whether resources are set for the pod as a whole.
func podLevel(lists ...corev1.ResourceList) bool {
	for _, list := range lists {
		for name := range list {
			if name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
				return true
			}
		}
	}
	return false
}
