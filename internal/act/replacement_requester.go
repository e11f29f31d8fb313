package act

import (
	"context"

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
