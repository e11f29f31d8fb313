package memberset

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// What is kept of an object that carries a set's label: who may write it may make it as large as the apiserver takes it, and all are looked at together.
const (
	mostWord       = 1 << 10 // bytes of a name, of a UID and of what an annotation says; no valid one is as long
	mostCrashing   = 64      // annotations of a pod that have a container crash
	mostContainers = 64      // of which each is known; of the others what they request
	mostClaims     = 128     // that a pod mounts
)

// SlimPod returns a pod with what is read of it where a decision is made: PodOf says the same of it as of the whole one, but for labels, annotations and parts of the
// spec that Decide does not ask for.
func SlimPod(pod *corev1.Pod) *corev1.Pod {
	slim := &corev1.Pod{ObjectMeta: slimMeta(&pod.ObjectMeta), Status: corev1.PodStatus{
		Phase: pod.Status.Phase, PodIP: pod.Status.PodIP, Reason: pod.Status.Reason, Message: pod.Status.Message,
		Conditions: pod.Status.Conditions, InitContainerStatuses: pod.Status.InitContainerStatuses, ContainerStatuses: pod.Status.ContainerStatuses,
	}}
	slim.Spec = corev1.PodSpec{
		NodeName: pod.Spec.NodeName, Hostname: pod.Spec.Hostname, InitContainers: slimContainers(pod.Spec.InitContainers), Containers: slimContainers(pod.Spec.Containers),
	}
	if s := pod.Spec.SecurityContext; s != nil {
		slim.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: s.FSGroup, FSGroupChangePolicy: s.FSGroupChangePolicy, RunAsUser: s.RunAsUser, RunAsGroup: s.RunAsGroup}
	}
	for i := range pod.Spec.Volumes {
		of := pod.Spec.Volumes[i].PersistentVolumeClaim
		if of != nil && len(of.ClaimName) <= mostWord && len(slim.Spec.Volumes) < mostClaims {
			slim.Spec.Volumes = append(slim.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: of.ClaimName},
			}})
		}
	}
	return slim
}

// slimContainers keeps that by which a change shows: what each requests, and what it runs as.
func slimContainers(all []corev1.Container) []corev1.Container {
	each := all[:min(len(all), mostContainers)]
	var kept []corev1.Container
	for i := range each {
		c := corev1.Container{Name: each[i].Name, Resources: requestedOf(each[i : i+1])}
		if s := each[i].SecurityContext; s != nil {
			c.SecurityContext = &corev1.SecurityContext{RunAsUser: s.RunAsUser, RunAsGroup: s.RunAsGroup}
		}
		kept = append(kept, c)
	}
	if len(all) > len(each) {
		kept = append(kept, corev1.Container{Resources: requestedOf(all[len(each):])})
	}
	return kept
}

func requestedOf(containers []corev1.Container) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: requested(containers, corev1.ResourceCPU), corev1.ResourceMemory: requested(containers, corev1.ResourceMemory),
	}}
}

// SlimClaim returns a claim with what is read of it where a decision is made.
func SlimClaim(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: slimMeta(&claim.ObjectMeta), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: text.Cut(claim.Spec.VolumeName, mostWord)},
	}
}

// slimMeta keeps which object it is, whose it is, and what Usher's annotations say.
func slimMeta(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	slim := metav1.ObjectMeta{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID, ResourceVersion: meta.ResourceVersion,
		CreationTimestamp: meta.CreationTimestamp, DeletionTimestamp: meta.DeletionTimestamp,
		Labels: map[string]string{}, Annotations: map[string]string{},
	}
	if owner := metav1.GetControllerOf(meta); owner != nil {
		owner.APIVersion, owner.Kind, owner.Name = text.Cut(owner.APIVersion, mostWord), text.Cut(owner.Kind, mostWord), text.Cut(owner.Name, mostWord)
		if len(owner.UID) > mostWord {
			owner.UID = "" // as that of nothing
		}
		slim.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	for _, key := range []string{v1alpha1.MemberSetLabel, v1alpha1.MemberGroupLabel, v1alpha1.MemberIDLabel} {
		if value, is := meta.Labels[key]; is {
			slim.Labels[key] = value
		}
	}
	keys := append(crashingKeys(meta.Annotations), SetUIDAnnotation, TemplateHashAnnotation, LabelsHashAnnotation, FileHashAnnotation, v1alpha1.OnEvictionAnnotation, v1alpha1.EmptyConfigurationAnnotation)
	for _, key := range keys {
		if value, is := meta.Annotations[key]; is {
			slim.Annotations[key] = text.Cut(value, mostWord)
		}
	}
	return slim
}

func crashingKeys(annotations map[string]string) []string {
	var keys []string
	for key := range annotations {
		if strings.HasPrefix(key, v1alpha1.CrashLoopPrefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys[:min(len(keys), mostCrashing)]
}
