package replacement

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// mostFinalizers bounds, in bytes, what is kept of a request's finalizers.
const mostFinalizers = 4 << 10

// Slim returns a request with what is used of its metadata. Who may create requests may write a megabyte and a half of it on each, and all are kept; what a
// request says is bounded by its schema.
func Slim(q *v1alpha1.ReplacementRequest) *v1alpha1.ReplacementRequest {
	meta := metav1.ObjectMeta{
		Namespace: q.Namespace, Name: q.Name, UID: q.UID, ResourceVersion: q.ResourceVersion, Generation: q.Generation,
		CreationTimestamp: q.CreationTimestamp, DeletionTimestamp: q.DeletionTimestamp, Finalizers: slimFinalizers(q.Finalizers),
	}
	if node, is := q.Labels[v1alpha1.MaintainedNodeLabel]; is {
		meta.Labels = map[string]string{v1alpha1.MaintainedNodeLabel: node}
	}
	return &v1alpha1.ReplacementRequest{ObjectMeta: meta, Spec: q.Spec, Status: q.Status}
}

// slimFinalizers keeps Usher's own, and of the others what fits. A request is held, and let go, by writing those that are kept.
func slimFinalizers(all []string) []string {
	var kept []string
	left := mostFinalizers
	for _, name := range all {
		if left -= len(name); left >= 0 || name == v1alpha1.ReplacementFinalizer {
			kept = append(kept, name)
		}
	}
	return kept
}
