package observe

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// scaled reads a workload of any kind, and its number of replicas by the subresource scale. nil: it is not there. One
// without a scale, or that may not be read, has Replicas -1, and in SurgeError why; then uid is taken to be its own.
func (r *workloadRead) scaled(ctx context.Context, kind schema.GroupKind, name string, uid types.UID) (*snapshot.Workload, error) {
	if kind == memberSetKind {
		return r.memberSet(ctx, name)
	}
	mapping, err := r.Mapper.RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		return nil, nil // its kind is not served any more, or never was: a pod's author writes what owns it
	}
	if err != nil {
		return nil, fmt.Errorf("looking up the kind %s: %w", kind, err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return nil, nil
	}
	resource := r.Dynamic.Resource(mapping.Resource).Namespace(r.namespace)
	object, err := resource.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return &snapshot.Workload{
			Kind: kind.Kind, Group: kind.Group, Namespace: r.namespace, Name: name, UID: uid, Replicas: uncounted,
			SurgeError: fmt.Sprintf("the manager may not get %s: a ClusterRole with the label usher.sh/aggregate-to-workloads: \"true\" can give it that right",
				mapping.Resource.GroupResource()),
		}, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	facts := scaledFacts(object)
	if kind.Group == "apps" && kind.Kind == "ReplicaSet" && facts.Owner.UID != "" {
		return facts, nil // only its owner is of use
	}
	scale, err := resource.Get(ctx, name, metav1.GetOptions{}, "scale")
	switch {
	case apierrors.IsNotFound(err):
		facts.Replicas, facts.SurgeError = uncounted, "it has no subresource scale"
	case apierrors.IsForbidden(err):
		facts.Replicas, facts.SurgeError = uncounted, err.Error()
	case err != nil:
		return nil, fmt.Errorf("reading the scale of %s %s: %w", kind, name, err)
	default:
		readScale(facts, object, scale)
	}
	return facts, nil
}

// scaledFacts are those that all kinds have.
func scaledFacts(object *unstructured.Unstructured) *snapshot.Workload {
	kind := object.GroupVersionKind()
	facts := &snapshot.Workload{
		Kind: kind.Kind, Group: kind.Group, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), Owner: snapshot.OwnerOf(object), Replicas: uncounted, Settled: true,
	}
	if kind.Group == "apps" || kind.Group == "" {
		facts.Group = ""
	}
	if seconds, ok, err := unstructured.NestedInt64(object.Object, "spec", "minReadySeconds"); ok && err == nil {
		facts.MinReady = time.Duration(seconds) * time.Second
	}
	facts.Surge, facts.SurgeError = surge(object)
	return facts
}

// readScale takes in how many replicas are wanted, and whether a rollout is under way, as far as the kind says so in the fields that
// Kubernetes' own kinds have.
func readScale(facts *snapshot.Workload, object, scale *unstructured.Unstructured) {
	wanted, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	if err != nil {
		facts.SurgeError = "its scale cannot be read: " + err.Error()
		return
	}
	facts.Replicas = int32(wanted) //nolint:gosec // the API's type is int32
	if selector, ok, err := unstructured.NestedString(scale.Object, "status", "selector"); ok && err == nil {
		facts.Selector = selector
	}
	running, _, _ := unstructured.NestedInt64(scale.Object, "status", "replicas")
	facts.Settled = running == wanted && observedGeneration(object)
	if updated, ok, err := unstructured.NestedInt64(object.Object, "status", "updatedReplicas"); ok && err == nil {
		facts.Settled = facts.Settled && updated == wanted
	}
}

// observedGeneration reports whether the controller has seen the spec. Argo Rollouts writes the number as text.
func observedGeneration(object *unstructured.Unstructured) bool {
	seen, found, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "observedGeneration")
	return !found || fmt.Sprint(seen) == fmt.Sprint(object.GetGeneration())
}
