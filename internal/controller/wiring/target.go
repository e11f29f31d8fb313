package wiring

import (
	"context"

	api "k8s.io/api/lifecycle/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
)

// TargetPodIndexes are the indexes by which package targets reads.
func TargetPodIndexes() []Index {
	return []Index{
		{Object: &api.EvictionRequest{}, Field: targets.Field, Values: targets.IndexPod},
		{Object: &api.Eviction{}, Field: targets.Field, Values: targets.IndexPod},
	}
}

// PodOf maps an EvictionRequest or an Eviction to the key of the pod that it targets.
func PodOf(_ context.Context, o client.Object) []reconcile.Request {
	if ref, ok := evictionrequest.RefOf(o); ok {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}}}
	}
	return nil
}
