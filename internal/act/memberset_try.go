package act

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// TryMemberSet has the server check a set that is not there yet, and returns it as it would be. The error is the API's.
func TryMemberSet(ctx context.Context, to dynamic.ResourceInterface, set *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return to.Create(ctx, set, metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}})
}

// TryMemberSetPatch has the server check a merge patch of a set, and returns the set as it would be. The error is the API's.
func TryMemberSetPatch(ctx context.Context, to dynamic.ResourceInterface, name string, patch []byte) (*unstructured.Unstructured, error) {
	return to.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}})
}
