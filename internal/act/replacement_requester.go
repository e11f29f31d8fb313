package act

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
)

// CreateReplacement creates a ReplacementRequest, or has the server check it with dryRun, and returns it as it is then. The error is the API's.
func CreateReplacement(ctx context.Context, to dynamic.Interface, q *v1alpha1.ReplacementRequest, dryRun bool) (*v1alpha1.ReplacementRequest, error) {
	created, err := create(ctx, to.Resource(observe.ReplacementResource).Namespace(q.Namespace), q, dryRun)
	if err != nil {
		return nil, err
	}
	return observe.ReplacementOf(created)
}

// abandonmentPatch adds a person's word to a request.
type abandonmentPatch struct {
	Metadata patchMeta `json:"metadata"`
	Spec     struct {
		Abandonment *v1alpha1.ReplacementAbandonment `json:"abandonment"`
	} `json:"spec"`
}

// AbandonData gives data up in a request, at the version that was read, or has the server check it with dryRun, and returns the request as it is
// then. The error is the API's: a conflict where it has changed since.
func AbandonData(ctx context.Context, to dynamic.Interface, q *v1alpha1.ReplacementRequest, given *v1alpha1.ReplacementAbandonment, dryRun bool) (*v1alpha1.ReplacementRequest, error) {
	patch := abandonmentPatch{Metadata: patchMeta{UID: q.UID, ResourceVersion: q.ResourceVersion}}
	patch.Spec.Abandonment = given
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("writing a patch: %w", err)
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	changed, err := to.Resource(observe.ReplacementResource).Namespace(q.Namespace).Patch(ctx, q.Name, types.MergePatchType, body, options)
	if err != nil {
		return nil, err
	}
	return observe.ReplacementOf(changed)
}
