package manager

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/policycache"
)

// What is kept of a pod's labels, of its annotations, of its reference to its controller and of its volumes is bounded: Kubernetes allows
// a megabyte and a half, and who may create pods may write it.
const (
	mostText        = 16 << 10 // bytes of labels, and as many of annotations
	entryBytes      = 64       // what a label or an annotation takes beside its text
	mostOwner       = 1 << 10  // bytes
	mostVolumes     = 32       // of each kind
	mostTolerations = 4        // for a node that is not ready or unreachable
)

// bound drops the largest annotations and labels of a pod until the others fit: what policies ask for is small. Whether a member leaves is
// decided on the pod as the apiserver has it.
func bound(meta *metav1.ObjectMeta) {
	meta.Labels, meta.Annotations = bounded(meta.Labels), bounded(meta.Annotations)
	owner := metav1.GetControllerOfNoCopy(meta)
	if owner == nil || len(owner.APIVersion)+len(owner.Kind)+len(owner.Name)+len(owner.UID) > mostOwner { // no object has such a name
		meta.OwnerReferences = nil
		return
	}
	if len(meta.OwnerReferences) > 1 {
		meta.OwnerReferences = []metav1.OwnerReference{*owner}
	}
}

// bounded returns the map itself if it fits. What Usher reads itself is kept in any case.
func bounded(all map[string]string) map[string]string {
	total := 0
	for key, value := range all {
		total += weigh(key, value)
	}
	if total <= mostText {
		return all
	}
	kept, left := map[string]string{}, mostText
	for _, own := range []string{v1alpha1.PolicyLabel, v1alpha1.AuditLabel, v1alpha1.BreakGlassAnnotation, v1alpha1.TolerationsAnnotation, corev1.MirrorPodAnnotationKey} {
		if text, ok := all[own]; ok {
			kept[own] = policycache.Short(text)
		}
	}
	smallest := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(weigh(a, all[a]), weigh(b, all[b])), cmp.Compare(a, b))
	})
	for _, key := range smallest {
		if left -= weigh(key, all[key]); left < 0 {
			return kept
		}
		if _, ok := kept[key]; !ok {
			kept[key] = all[key]
		}
	}
	return kept
}

func weigh(key, value string) int { return len(key) + len(value) + entryBytes }
