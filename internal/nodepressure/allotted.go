package nodepressure

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// allotted returns the pod with the requests for cpu and memory that its kubelet has allocated to it. Until a resize in
// place is granted (it may be deferred, or be infeasible) the kubelet ranks and scores by those and not by the spec
// (pkg/kubelet/allocation of Kubernetes 1.37); a granted one counts at once, whether it is carried out or not. What the
// status does not say is taken from the spec. The pod given is not changed.
func allotted(p *corev1.Pod) *corev1.Pod {
	out := *p
	out.Status.QOSClass = QoSOf(p) // a resize does not change it, and allocated limits are not in the status
	statuses := map[string]*corev1.ContainerStatus{}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			statuses[list[i].Name] = &list[i]
		}
	}
	out.Spec.InitContainers = allottedTo(p.Spec.InitContainers, statuses)
	out.Spec.Containers = allottedTo(p.Spec.Containers, statuses)
	out.Spec.Resources = allottedToPod(&out)
	return &out
}

// allottedTo returns the containers with the requests that were allocated to them. A status with resources and without
// allocated ones is that of a container whose first request was not granted: an empty list does not survive the API.
func allottedTo(containers []corev1.Container, statuses map[string]*corev1.ContainerStatus) []corev1.Container {
	out := slices.Clone(containers)
	for i := range out {
		if s := statuses[out[i].Name]; s != nil && (s.AllocatedResources != nil || s.Resources != nil) {
			out[i].Resources.Requests = resized(out[i].Resources.Requests, s.AllocatedResources)
		}
	}
	return out
}

// allottedToPod returns the resources of the pod as a whole with the memory that was allocated to it; its containers have
// theirs already. A request that was not granted leaves a pod without one of its own, whose allocation is the sum of what
// its containers have.
func allottedToPod(p *corev1.Pod) *corev1.ResourceRequirements {
	total, known := allottedMemory(p)
	if p.Spec.Resources == nil || !known {
		return p.Spec.Resources
	}
	own, found := p.Spec.Resources.Requests[corev1.ResourceMemory]
	if !found || own.Equal(total) {
		return p.Spec.Resources
	}
	out := p.Spec.Resources.DeepCopy()
	delete(out.Requests, corev1.ResourceMemory)
	if containers := containersRequest(p, corev1.ResourceMemory); !total.Equal(containers) {
		out.Requests[corev1.ResourceMemory] = total
	}
	return out
}

// allottedMemory returns the memory that was allocated to the pod, without its overhead, and whether the kubelet reports it
// (from Kubernetes 1.36 on). It reports resources whenever it reports what is allocated, which may be nothing.
func allottedMemory(p *corev1.Pod) (resource.Quantity, bool) {
	if p.Status.AllocatedResources == nil && p.Status.Resources == nil {
		return resource.Quantity{}, false
	}
	total := p.Status.AllocatedResources.Memory().DeepCopy()
	total.Sub(p.Spec.Overhead[corev1.ResourceMemory])
	if total.Sign() < 0 {
		return resource.Quantity{}, true
	}
	return total, true
}

// resized returns the requests with those for cpu and memory replaced; no other can be resized.
func resized(requests, granted corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(requests)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, found := granted[name]; !found {
			delete(out, name)
		} else {
			if out == nil {
				out = corev1.ResourceList{}
			}
			out[name] = q
		}
	}
	return out
}
