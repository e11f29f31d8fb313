package memberset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

// requestsMore reports whether a template requests more CPU or memory than a pod does, in sum over its containers, or over its init containers. Limits
// do not matter, nor does what becomes less.
func requestsMore(template, pod *corev1.PodSpec) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		now, before := requested(template.Containers, name), requested(pod.Containers, name)
		initNow, initBefore := requested(template.InitContainers, name), requested(pod.InitContainers, name)
		if now.Cmp(before) > 0 || initNow.Cmp(initBefore) > 0 {
			return true
		}
	}
	return false
}

// requested is a sum. A container that has a limit and no request requests its limit, as the apiserver has it.
func requested(containers []corev1.Container, name corev1.ResourceName) resource.Quantity {
	var sum resource.Quantity
	for i := range containers {
		r := &containers[i].Resources
		quantity, is := r.Requests[name]
		if !is {
			quantity = r.Limits[name]
		}
		sum.Add(quantity)
	}
	return sum
}

// ownsOtherwise reports whether files on the volumes of a pod belong to others where it is made of the template: by fsGroup and fsGroupChangePolicy, and by the
// user and the group that each container of both runs as, of whichever level.
func ownsOtherwise(template, pod *corev1.PodSpec) bool {
	now, before := securityOf(template), securityOf(pod)
	if !equality.Semantic.DeepEqual(now.FSGroup, before.FSGroup) || !equality.Semantic.DeepEqual(now.FSGroupChangePolicy, before.FSGroupChangePolicy) {
		return true
	}
	for i := range template.Containers {
		c := &template.Containers[i]
		at := slices.IndexFunc(pod.Containers, func(other corev1.Container) bool { return other.Name == c.Name })
		if at < 0 {
			continue
		}
		user, group := runsAs(now, c)
		userBefore, groupBefore := runsAs(before, &pod.Containers[at])
		if !equality.Semantic.DeepEqual(user, userBefore) || !equality.Semantic.DeepEqual(group, groupBefore) {
			return true
		}
	}
	return false
}

func securityOf(spec *corev1.PodSpec) *corev1.PodSecurityContext {
	if spec.SecurityContext == nil {
		return &corev1.PodSecurityContext{}
	}
	return spec.SecurityContext
}

// runsAs are the user and the group that a container runs as: its own, or else its pod's.
func runsAs(pod *corev1.PodSecurityContext, c *corev1.Container) (user, group *int64) {
	user, group = pod.RunAsUser, pod.RunAsGroup
	if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
		user = c.SecurityContext.RunAsUser
	}
	if c.SecurityContext != nil && c.SecurityContext.RunAsGroup != nil {
		group = c.SecurityContext.RunAsGroup
	}
	return user, group
}
