package wiring

import (
	"context"

	api "k8s.io/api/lifecycle/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/lifecycle"
)

// TargetPod is the field by which EvictionRequests and Evictions are found: the name of the pod that they target.
const TargetPod = "spec.target.pod.name"

// TargetPodIndexes are the indexes of both kinds by TargetPod.
func TargetPodIndexes() []Index {
	return []Index{{&api.EvictionRequest{}, TargetPod, targetPod}, {&api.Eviction{}, TargetPod, targetPod}}
}

func targetPod(o client.Object) []string {
	if ref, ok := lifecycle.RefOf(o); ok {
		return []string{ref.Name}
	}
	return nil
}

// PodOf maps an EvictionRequest or an Eviction to the key of the pod that it targets.
func PodOf(_ context.Context, o client.Object) []reconcile.Request {
	if ref, ok := lifecycle.RefOf(o); ok {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}}}
	}
	return nil
}
