package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"usher.sh/usher/api/v1alpha1"
)

// policies checks policies when they are written.
type policies struct{ Options }

// Handle answers one request.
func (h *policies) Handle(ctx context.Context, request admission.Request) admission.Response {
	var policy v1alpha1.EvictionPolicy
	if err := json.Unmarshal(request.Object.Raw, &policy); err != nil {
		return refuseBad(fmt.Errorf("reading the policy: %w", err))
	}
	if problems := h.problems(request.Namespace, &policy); len(problems) > 0 {
		kind := v1alpha1.GroupVersion.WithKind("EvictionPolicy").GroupKind()
		status := apierrors.NewInvalid(kind, request.Name, problems).Status()
		response := admission.Denied("")
		response.Result = &status
		return response
	}
	return admission.Allowed("").WithWarnings(h.warnings(ctx, request.Namespace, &policy)...)
}

func (h *policies) problems(namespace string, policy *v1alpha1.EvictionPolicy) field.ErrorList {
	var all field.ErrorList
	if namespace == metav1.NamespaceSystem || namespace == h.Namespace {
		why := "pods of this namespace cannot be governed, because Usher itself needs them: admission leaves it out"
		all = append(all, field.Forbidden(field.NewPath("metadata", "namespace"), why))
	}
	for _, p := range h.Compile(&policy.Spec) {
		all = append(all, &field.Error{Type: field.ErrorTypeInvalid, Field: p.Path, BadValue: field.OmitValueType{}, Detail: p.Message})
	}
	return all
}

// warnings names entries that claim the same pods for certain. Those that overlap otherwise show only in the pods, and
// then in the policies' status.
func (h *policies) warnings(ctx context.Context, namespace string, policy *v1alpha1.EvictionPolicy) []string {
	claimed := map[string]string{} // selector -> who has it
	var list v1alpha1.EvictionPolicyList
	if err := h.Reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return []string{"usher could not compare this policy with the others of its namespace: " + err.Error()}
	}
	for i := range list.Items {
		if other := &list.Items[i]; other.Name != policy.Name {
			maps.Insert(claimed, selectors(other))
		}
	}
	var warnings []string
	for selector, entry := range selectors(policy) {
		if other, ok := claimed[selector]; ok {
			warnings = append(warnings, fmt.Sprintf("%s and %s have the same selector (%s): their pods will be blocked until only one of them claims them", entry, other, selector))
		}
		claimed[selector] = entry
	}
	return slices.Compact(warnings)
}

// selectors yields the selector and the place of each entry.
func selectors(policy *v1alpha1.EvictionPolicy) func(yield func(selector, entry string) bool) {
	return func(yield func(selector, entry string) bool) {
		for i := range policy.Spec.Members {
			selector := metav1.FormatLabelSelector(&policy.Spec.Members[i].Selector)
			if !yield(selector, fmt.Sprintf("spec.members[%d] of policy %s", i, policy.Name)) {
				return
			}
		}
	}
}
