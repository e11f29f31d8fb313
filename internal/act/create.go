package act

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
)

// create creates an object of Usher's own kinds without its status, or has the server check it with dryRun. The error is the API's.
func create(ctx context.Context, to dynamic.ResourceInterface, object runtime.Object, dryRun bool) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("writing a %s: %w", object.GetObjectKind().GroupVersionKind().Kind, err)
	}
	delete(fields, "status")
	options := metav1.CreateOptions{FieldManager: fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return to.Create(ctx, &unstructured.Unstructured{Object: fields}, options)
}
