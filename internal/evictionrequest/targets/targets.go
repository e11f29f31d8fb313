// Package targets answers: which EvictionRequests and Evictions are there of a pod? It reads them from a cache by one index, so that what
// a look at a pod costs does not grow with the requests of its namespace.
package targets

import (
	"context"
	"fmt"
	"slices"

	api "k8s.io/api/lifecycle/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

// Field is the index of both kinds: the name of the pod that they target, within a namespace.
const Field = "spec.target.pod.name"

// IndexPod is the index's function.
func IndexPod(o client.Object) []string {
	if ref, ok := evictionrequest.RefOf(o); ok {
		return []string{ref.Name}
	}
	return nil
}

// RequestsOf returns the EvictionRequests of all pods that have or had a name. They must not be changed.
func RequestsOf(ctx context.Context, from client.Reader, pod snapshot.Key) ([]*api.EvictionRequest, error) {
	var list api.EvictionRequestList
	err := from.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingFields{Field: pod.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing eviction requests: %w", err)
	}
	return pointers(list.Items), nil
}

// WantedOf returns those of them that stand.
func WantedOf(ctx context.Context, from client.Reader, pod snapshot.Key) ([]*api.EvictionRequest, error) {
	all, err := RequestsOf(ctx, from, pod)
	return slices.DeleteFunc(all, func(r *api.EvictionRequest) bool { return !evictionrequest.Stands(r) }), err
}

// EvictionsOf returns the Evictions of all pods that have or had a name. They must not be changed.
func EvictionsOf(ctx context.Context, from client.Reader, pod snapshot.Key) ([]*api.Eviction, error) {
	var list api.EvictionList
	err := from.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingFields{Field: pod.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing evictions: %w", err)
	}
	return pointers(list.Items), nil
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}
