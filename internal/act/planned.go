package act

import (
	"context"

	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/evictionrequest"
)

// Apply writes what internal/evictionrequest has planned of an object of its API, with the precondition that is in it. What the
// owner wrote before and the plan does not name goes.
func Apply(ctx context.Context, to client.Client, planned *unstructured.Unstructured, owner string) error {
	return to.Apply(ctx, client.ApplyConfigurationFromUnstructured(planned), client.FieldOwner(owner), client.ForceOwnership)
}

// ApplyStatus is Apply of a status.
func ApplyStatus(ctx context.Context, to client.Client, planned *unstructured.Unstructured, owner string) error {
	return to.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(planned), client.FieldOwner(owner), client.ForceOwnership)
}

// GiveUp withdraws a request that its requester does not keep up, at the version that was read: its requester may just have
// asked again.
func GiveUp(ctx context.Context, to client.Client, request *api.EvictionRequest, owner string) error {
	body, err := evictionrequest.GivenUpPatch(request)
	if err != nil {
		return err
	}
	return to.Patch(ctx, request, client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner))
}
