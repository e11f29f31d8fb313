package act

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
)

// CreateReplacement creates a ReplacementRequest, or has the server check it with dryRun, and returns it as it is then. The error is the API's.
func CreateReplacement(ctx context.Context, to dynamic.Interface, q *v1alpha1.ReplacementRequest, dryRun bool) (*v1alpha1.ReplacementRequest, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(q)
	if err != nil {
		return nil, fmt.Errorf("writing a ReplacementRequest: %w", err)
	}
	delete(object, "status")
	options := metav1.CreateOptions{FieldManager: fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	created, err := to.Resource(observe.ReplacementResource).Namespace(q.Namespace).Create(ctx, &unstructured.Unstructured{Object: object}, options)
	if err != nil {
		return nil, err
	}
	return observe.ReplacementOf(created)
}
