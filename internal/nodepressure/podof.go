package nodepressure

import (
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// Why a pod is never evicted.
const (
	ExemptMirror   = "mirror pod"
	ExemptCritical = "critical priority"
	ExemptLoad     = "stays by its policy" // what it carries leaves (leaves: Load): PodOf does not know that
)

const (
	criticalPriority  = 2_000_000_000
	nodeCriticalClass = "system-node-critical"
)

// PodOf returns all that an API object says of a pod; Usage is left to the caller.
func PodOf(p *corev1.Pod) Pod {
	p = allotted(p)
	out := Pod{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID,
		QoS: QoSOf(p), Exempt: exempt(p), Requests: requestsOf(p), Containers: containersOf(p),
		Grace: snapshot.GraceOf(p), DaemonSet: snapshot.OwnerOf(p).DaemonSet(),
	}
	if p.Spec.Priority != nil {
		out.Priority = *p.Spec.Priority
	}
	out.NodeCritical = out.Exempt != "" && p.Spec.PriorityClassName == nodeCriticalClass
	// The label is a claim: a caller that has read the policies corrects Governed.
	out.Policy, out.Governed = p.Labels[v1alpha1.PolicyLabel]
	if p.DeletionTimestamp != nil {
		out.Terminating = true
		if s := p.DeletionGracePeriodSeconds; s != nil {
			out.setDeletionGrace(snapshot.Seconds(*s))
		}
		// The timestamp is when the pod has to be gone.
		out.DeletedAt = p.DeletionTimestamp.Add(-out.Grace)
	}
	return out
}

// exempt takes a pod for static by the annotation of its mirror, not by kubernetes.io/config.source: any user can write the
// latter on a pod of their own, and the kubelet overwrites it.
func exempt(p *corev1.Pod) string {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case mirror:
		return ExemptMirror
	case p.Spec.Priority != nil && *p.Spec.Priority >= criticalPriority:
		return ExemptCritical
	}
	return ""
}

func containersOf(p *corev1.Pod) []Container {
	var out []Container
	add := func(c *corev1.Container, init bool) {
		requests := c.Resources.Requests
		out = append(out, Container{
			Name: c.Name, Init: init, Sidecar: init && restartable(c),
			MemoryRequest: requests.Memory().Value(), DiskRequest: requests.StorageEphemeral().Value(),
			OOMRequest: oomRequest(p, c), Restart: restartOf(p, c), Usage: -1,
		})
	}
	for i := range p.Spec.InitContainers {
		add(&p.Spec.InitContainers[i], true)
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i], false)
	}
	return out
}
