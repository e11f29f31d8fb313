package observe

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
)

// listed reads all objects of a client, each by of. An error of the list is the API's.
func listed[T any](ctx context.Context, objects dynamic.ResourceInterface, of func(*unstructured.Unstructured) (T, error)) ([]T, error) {
	list, err := objects.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := make([]T, len(list.Items))
	for i := range list.Items {
		if all[i], err = of(&list.Items[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// typed reads what the API has of an object.
func typed[T any](kind string, object *unstructured.Unstructured) (*T, error) {
	found := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, found); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind, object.GetName(), err)
	}
	return found, nil
}
