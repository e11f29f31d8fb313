package policycache

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// mostShort is how much Short keeps, in bytes.
const mostShort = 256

// Reduce drops from a pod what only policies ask for: what is left of it is bounded, whatever its owner has written on it. Code that
// does not check whether it is reduced must not judge it: a fact that was dropped looks like one that is not so.
func Reduce(pod *corev1.Pod) {
	policy, labelled := pod.Labels[v1alpha1.PolicyLabel]
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	reason, broken := pod.Annotations[v1alpha1.BreakGlassAnnotation]
	audit, audited := pod.Labels[v1alpha1.AuditLabel]
	pod.Labels, pod.Annotations = nil, nil
	if labelled {
		pod.Labels = map[string]string{v1alpha1.PolicyLabel: policy}
	}
	if audited {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, v1alpha1.AuditLabel, audit)
	}
	kept := map[string]string{}
	if static {
		kept[corev1.MirrorPodAnnotationKey] = "" // only that it is there is asked for
	}
	if broken && labelled { // the label alone may have the pod refused
		kept[v1alpha1.BreakGlassAnnotation] = Short(reason)
	}
	if len(kept) > 0 {
		pod.Annotations = kept
	}
	pod.Spec.Volumes, pod.Spec.Tolerations = nil, nil
	pod.Status.PodIP, pod.Status.Conditions = "", nil
	pod.Generation = -max(1, pod.Generation)
}

// Short is what is kept of a text of which little more is asked for than that it is there.
func Short(text string) string {
	if len(text) > mostShort {
		return strings.ToValidUTF8(strings.Clone(text[:mostShort]), "")
	}
	return text
}

// Reduced reports whether Reduce has made this pod: no apiserver gives a generation below zero, and no tenant can.
func Reduced(pod *corev1.Pod) bool { return pod.Generation < 0 }

// SetSize notes in a pod of the cache, which has no use for a generation, how many bytes the apiserver sends for it.
func SetSize(pod *corev1.Pod, bytes int) { pod.Generation = int64(max(1, bytes)) }

// Size is how many bytes the apiserver sends for a pod of the cache, as SetSize has noted it; 0: it has noted nothing.
func Size(pod *corev1.Pod) int64 { return max(pod.Generation, -pod.Generation) }
