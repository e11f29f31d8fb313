package act

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/answers"
)

// QuotaExceeded is in what the apiserver says where a quota has no room. Where it refuses what says too little for the quota, that is not in it.
const QuotaExceeded = "exceeded quota: "

// TryPod says whether the apiserver would accept a pod once that of its name is gone: Accepted, or what it would answer. That one is there still, and
// counts in quotas.
func (w *Sets) TryPod(ctx context.Context, pod *corev1.Pod) answers.Answer {
	err := w.Client.Create(ctx, pod.DeepCopy(), client.FieldOwner(fieldManager), client.DryRunAll)
	if apierrors.IsAlreadyExists(err) {
		return answers.Answer{Code: answers.Accepted}
	}
	answer := answers.Of(err)
	if strings.Contains(answer.Message, QuotaExceeded) {
		return answers.Answer{Code: answers.Accepted}
	}
	return answer
}

// TryMemberSet has the server check a set that is not there yet, and returns it as it would be. The error is the API's.
func TryMemberSet(ctx context.Context, to dynamic.ResourceInterface, set *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return to.Create(ctx, set, metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}})
}

// TryMemberSetPatch has the server check a merge patch of a set, and returns the set as it would be. The error is the API's.
func TryMemberSetPatch(ctx context.Context, to dynamic.ResourceInterface, name string, patch []byte) (*unstructured.Unstructured, error) {
	return to.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}})
}
