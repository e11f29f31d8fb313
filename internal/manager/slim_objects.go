package manager

import (
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
)

// Of the objects that tenants write beside pods the metadata is bounded here: the apiserver takes a megabyte of it. What they say is
// bounded by their schemas, a policy's spec by admission, and a MemberSet's is not kept.

func slimPolicy(object any) (any, error) {
	policy, ok := object.(*v1alpha1.EvictionPolicy)
	if !ok {
		return object, nil
	}
	slim := &v1alpha1.EvictionPolicy{ObjectMeta: identity(&policy.ObjectMeta), Spec: policy.Spec, Status: policy.Status}
	slim.Finalizers = finalizers(policy.Finalizers)
	if owner := metav1.GetControllerOf(policy); owner != nil { // a MemberSet makes its policy
		slim.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return slim, nil
}

// finalizers keeps Usher's own, and of the others what fits. A policy is held, and let go, by writing those that are kept.
func finalizers(all []string) []string {
	var kept []string
	left := mostText
	for _, name := range all {
		if left -= weigh(name, ""); left >= 0 || name == v1alpha1.UndoFinalizer {
			kept = append(kept, name)
		}
	}
	return kept
}

func slimRequest(object any) (any, error) {
	request, ok := object.(*api.EvictionRequest)
	if !ok {
		return object, nil
	}
	slim := &api.EvictionRequest{ObjectMeta: identity(&request.ObjectMeta), Spec: request.Spec, Status: request.Status}
	slim.ManagedFields = evictionrequest.IntentSigns(request.ManagedFields)
	if asked, ok := request.Annotations[evictionrequest.LastRequestTimeAnnotation]; ok {
		slim.Annotations = map[string]string{evictionrequest.LastRequestTimeAnnotation: policycache.Short(asked)}
	}
	return slim, nil
}

func slimReplacement(object any) (any, error) {
	request, ok := object.(*v1alpha1.ReplacementRequest)
	if !ok {
		return object, nil
	}
	return replacement.Slim(request), nil
}

func slimMemberSet(object any) (any, error) {
	set, ok := object.(*v1alpha1.MemberSet)
	if !ok {
		return object, nil
	}
	return memberset.Slim(set), nil
}

// slimEviction keeps the labels and owners, which Usher's controller writes and bounds.
func slimEviction(object any) (any, error) {
	eviction, ok := object.(*api.Eviction)
	if !ok {
		return object, nil
	}
	slim := &api.Eviction{ObjectMeta: identity(&eviction.ObjectMeta), Spec: eviction.Spec, Status: eviction.Status}
	slim.Labels, slim.OwnerReferences = eviction.Labels, eviction.OwnerReferences
	slim.ManagedFields = evictionrequest.StatusSigns(eviction.ManagedFields)
	return slim, nil
}

// identity is what says which object it is, and in which version.
func identity(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:         meta.Namespace,
		Name:              meta.Name,
		UID:               meta.UID,
		ResourceVersion:   meta.ResourceVersion,
		Generation:        meta.Generation,
		CreationTimestamp: meta.CreationTimestamp,
		DeletionTimestamp: meta.DeletionTimestamp,
	}
}
