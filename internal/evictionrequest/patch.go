package evictionrequest

import (
	"fmt"

	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The functions below return objects for server-side apply: exactly the fields that the writer owns. An object that
// exists is named with its UID, so that a patch never reaches another one of the same name.

// CreationPatch creates an eviction, or keeps its metadata: labels that an earlier patch of the same field manager
// set and this one lacks are removed.
func CreationPatch(version schema.GroupVersion, e *api.Eviction) (*unstructured.Unstructured, error) {
	spec, err := fields(&e.Spec)
	if err != nil {
		return nil, err
	}
	patch := skeleton(version, "Eviction", &e.ObjectMeta)
	patch.Object["spec"] = spec
	patch.SetLabels(e.Labels)
	patch.SetOwnerReferences(e.OwnerReferences)
	return patch, nil
}

// MetadataPatch writes a metadata plan. It repeats the spec, which the field manager would give up otherwise.
func MetadataPatch(version schema.GroupVersion, e *api.Eviction, plan MetadataPlan) (*unstructured.Unstructured, error) {
	to := &api.Eviction{ObjectMeta: *e.ObjectMeta.DeepCopy(), Spec: e.Spec}
	to.Labels, to.OwnerReferences = plan.Labels, plan.Owners
	return CreationPatch(version, to)
}

// EvictionStatusPatch writes the controller's part of an eviction's status. Of a responder that is the name and the
// start; the rest is the responder's own.
func EvictionStatusPatch(version schema.GroupVersion, e *api.Eviction, status api.EvictionStatus) (*unstructured.Unstructured, error) {
	owned := api.EvictionStatus{
		Conditions:         ownConditions(status.Conditions),
		ObservedGeneration: status.ObservedGeneration,
		Requesters:         status.Requesters,
		TargetResponders:   status.TargetResponders,
	}
	for _, r := range status.Responders {
		owned.Responders = append(owned.Responders, api.ResponderStatus{Name: r.Name, StartTime: r.StartTime})
	}
	return statusPatch(version, "Eviction", &e.ObjectMeta, &owned)
}

// RequestStatusPatch writes a request's status.
func RequestStatusPatch(version schema.GroupVersion, r *api.EvictionRequest, status api.EvictionRequestStatus) (*unstructured.Unstructured, error) {
	owned := api.EvictionRequestStatus{Conditions: ownConditions(status.Conditions), ObservedGeneration: status.ObservedGeneration}
	return statusPatch(version, "EvictionRequest", &r.ObjectMeta, &owned)
}

// ReportPatch writes what a responder reports: everything of its entry but the start, which the controller set. It
// carries no resource version, because no other client writes these fields.
func ReportPatch(version schema.GroupVersion, e *api.Eviction, r api.ResponderStatus) (*unstructured.Unstructured, error) {
	r.StartTime = nil
	patch, err := statusPatch(version, "Eviction", &e.ObjectMeta, &api.EvictionStatus{Responders: []api.ResponderStatus{r}})
	if err != nil {
		return nil, err
	}
	patch.SetResourceVersion("")
	return patch, nil
}

func statusPatch[T api.EvictionStatus | api.EvictionRequestStatus](version schema.GroupVersion, kind string, of *metav1.ObjectMeta, status *T) (*unstructured.Unstructured, error) {
	content, err := fields(status)
	if err != nil {
		return nil, err
	}
	patch := skeleton(version, kind, of)
	patch.Object["status"] = content
	return patch, nil
}

func fields[T any](from *T) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return nil, fmt.Errorf("writing fields of a patch: %w", err)
	}
	return content, nil
}

func skeleton(version schema.GroupVersion, kind string, of *metav1.ObjectMeta) *unstructured.Unstructured {
	patch := &unstructured.Unstructured{Object: map[string]any{}}
	patch.SetGroupVersionKind(version.WithKind(kind))
	patch.SetNamespace(of.Namespace)
	patch.SetName(of.Name)
	patch.SetUID(of.UID)
	patch.SetResourceVersion(of.ResourceVersion)
	return patch
}

func ownConditions(all []metav1.Condition) []metav1.Condition {
	var own []metav1.Condition
	for _, c := range all {
		if c.Type == string(api.EvictionConditionFailed) || c.Type == string(api.EvictionConditionTargetEvicted) {
			own = append(own, c)
		}
	}
	return own
}
