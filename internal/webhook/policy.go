package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"usher.sh/usher/api/v1alpha1"
)

// policyHandler checks policies when they are written.
type policyHandler struct{ Options }

// Handle answers one request.
func (h *policyHandler) Handle(ctx context.Context, request admission.Request) admission.Response {
	var policy v1alpha1.EvictionPolicy
	if err := json.Unmarshal(request.Object.Raw, &policy); err != nil {
		return refuseBad(fmt.Errorf("reading the policy: %w", err))
	}
	if problems := append(h.problems(request.Namespace, &policy), h.leaves(request.OldObject.Raw, &policy)...); len(problems) > 0 {
		kind := v1alpha1.GroupVersion.WithKind("EvictionPolicy").GroupKind()
		status := apierrors.NewInvalid(kind, request.Name, problems).Status()
		response := admission.Denied("")
		response.Result = &status
		return response
	}
	if asksAnew(request.OldObject.Raw, &policy, patches) {
		if refused := h.review(ctx, &request, impersonation(request.Namespace, policy.Spec.ServiceAccountName), "provider.patch"); refused != nil {
			return *refused
		}
	}
	if asksAnew(request.OldObject.Raw, &policy, locks) {
		if refused := h.review(ctx, &request, lockRights(request.Namespace, policy.Spec.ServiceAccountName), "nodeLock"); refused != nil {
			return *refused
		}
	}
	if asksAnew(request.OldObject.Raw, &policy, repairs) {
		if refused := h.review(ctx, &request, replacementRights(request.Namespace), "spec.repair with mode Automatic"); refused != nil {
			return *refused
		}
	}
	if asksAnew(request.OldObject.Raw, &policy, removes) {
		if refused := h.review(ctx, &request, replacementRights(request.Namespace), "provider.statefulSet or provider.deletePod"); refused != nil {
			return *refused
		}
	}
	return admission.Allowed("").WithWarnings(h.warnings(ctx, request.Namespace, &policy)...)
}

// repairs reports whether a policy has members replaced by itself.
func repairs(spec *v1alpha1.EvictionPolicySpec) bool {
	return spec.Repair != nil && spec.Repair.Mode == v1alpha1.RepairAutomatic
}

// removes reports whether a policy has members removed when they are replaced. Who writes it says when, and what becomes of their volumes, also of those for
// which another has made a request.
func removes(spec *v1alpha1.EvictionPolicySpec) bool {
	return slices.ContainsFunc(spec.Members, func(m v1alpha1.MemberSelector) bool {
		return m.Provider != nil && (m.Provider.StatefulSet != nil || m.Provider.DeletePod != nil)
	})
}

// patches reports whether a policy has objects patched as its ServiceAccount.
func patches(spec *v1alpha1.EvictionPolicySpec) bool {
	return slices.ContainsFunc(spec.Members, func(m v1alpha1.MemberSelector) bool { return m.Provider != nil && m.Provider.Patch != nil })
}

// impersonation is the right to act as a ServiceAccount. Who has objects patched as one could do so themselves.
func impersonation(namespace, account string) []authorizationv1.ResourceAttributes {
	return []authorizationv1.ResourceAttributes{{Namespace: namespace, Verb: "impersonate", Version: "v1", Resource: "serviceaccounts", Name: account}}
}

// locks reports whether a policy has nodes labelled and locked as its ServiceAccount.
func locks(spec *v1alpha1.EvictionPolicySpec) bool { return spec.NodeLock != nil }

// lockRights are those to patch nodes, and to act as the ServiceAccount that does so: what a namespace's owner writes acts on no nodes.
func lockRights(namespace, account string) []authorizationv1.ResourceAttributes {
	return append([]authorizationv1.ResourceAttributes{{Verb: "patch", Version: "v1", Resource: "nodes"}}, impersonation(namespace, account)...)
}

// asksAnew reports whether a policy does what takes a right, and says something that it did not say before. Before is empty where there was none.
func asksAnew(before []byte, policy *v1alpha1.EvictionPolicy, does func(*v1alpha1.EvictionPolicySpec) bool) bool {
	if !does(&policy.Spec) {
		return false
	}
	var old v1alpha1.EvictionPolicy
	if len(before) == 0 || json.Unmarshal(before, &old) != nil {
		return true
	}
	is, was := policy.Spec, old.Spec
	was.Suspend = was.Suspend || is.Suspend // whoever may write the policy may stop it; to let it go on takes the right
	return !equality.Semantic.DeepEqual(is, was)
}

// leaves refuses that a policy is for another system while something is begun in the one that it was for: that would be taken back in the other, where nothing of it
// is. Before is empty where there was no policy.
func (h *policyHandler) leaves(before []byte, policy *v1alpha1.EvictionPolicy) field.ErrorList {
	var old v1alpha1.EvictionPolicy
	if len(before) == 0 || json.Unmarshal(before, &old) != nil || len(old.Status.Preparations) == 0 {
		return nil
	}
	kind, ok := h.Kind(&old.Spec.System)
	if !ok || kind.Same == nil || kind.Same(&old.Spec.System, &policy.Spec.System) {
		return nil
	}
	begun := &old.Status.Preparations[0]
	why := fmt.Sprintf("%s of %s was begun in the system that the policy is for until now, and could not be taken back in another: end what it was begun for "+
		"(a drain, a maintenance), and wait until status.preparations is empty", begun.Name, begun.ID)
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "system", kind.Name), why)}
}

// mostSpec bounds what a policy takes in each replica's memory, in bytes of its spec as JSON. Nothing of a spec can be left out there,
// and its schema allows megabytes.
const mostSpec = 64 << 10

func (h *policyHandler) problems(namespace string, policy *v1alpha1.EvictionPolicy) field.ErrorList {
	spec, err := json.Marshal(&policy.Spec)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	if len(spec) > mostSpec {
		why := fmt.Sprintf("it takes %d bytes, and every replica of the manager keeps it; share it out among several policies", len(spec))
		return field.ErrorList{&field.Error{
			Type: field.ErrorTypeTooLong, Field: "spec", BadValue: field.OmitValueType{}, Detail: fmt.Sprintf("may not be more than %d bytes: %s", mostSpec, why),
		}}
	}
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
