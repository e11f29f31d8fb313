package webhook

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.sh/usher/api/v1alpha1"
)

// actsAs answers that a user may impersonate one ServiceAccount of namespace shop, and nothing else.
type actsAs string

func (a actsAs) Review(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, string, error) {
	right := spec.ResourceAttributes
	is := right.Verb == "impersonate" && right.Resource == "serviceaccounts" && right.Namespace == "shop" && right.Name == string(a)
	return spec.User == "anna" && is, "", nil
}

// written is a review of a policy that anna writes.
func written(t *testing.T, before runtime.Object, policy *v1alpha1.EvictionPolicy) string {
	t.Helper()
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "r1", Operation: admissionv1.Create, Namespace: "shop", Name: "db", UserInfo: authenticationv1.UserInfo{Username: "anna"},
			Object: runtime.RawExtension{Object: policy}, OldObject: runtime.RawExtension{Object: before},
		},
	}
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Who has objects patched as a ServiceAccount must have the right to act as that, each time that the policy says something else.
func TestPatchesTakeTheRightToImpersonate(t *testing.T) {
	patching := testPolicy()
	patching.Spec.ServiceAccountName = "operator"
	patching.Spec.Members[0].Provider = &v1alpha1.Provider{Patch: &v1alpha1.PatchProvider{
		Target: v1alpha1.PatchTarget{APIVersion: "v1", Kind: "Pod", Name: "{{pod.name}}"}, Do: v1alpha1.ObjectPatch{Merge: `{"metadata":{"labels":{"a":"b"}}}`},
	}}
	other := patching.DeepCopy()
	other.Spec.Members[0].Provider.Patch.Do.Merge = `{"metadata":{"labels":{"a":"c"}}}`
	suspended := patching.DeepCopy()
	suspended.Spec.Suspend = true
	for name, test := range map[string]struct {
		before  runtime.Object
		policy  *v1alpha1.EvictionPolicy
		account actsAs
		code    int32
	}{
		"with the right":                {nil, patching, "operator", http.StatusOK},
		"with that to another":          {nil, patching, "default", http.StatusForbidden},
		"another patch without it":      {patching, other, "", http.StatusForbidden},
		"the same, suspended, without":  {patching, suspended, "", http.StatusOK},
		"suspended no longer, without":  {suspended, patching, "", http.StatusForbidden},
		"suspended no longer, with it":  {suspended, patching, "operator", http.StatusOK},
		"suspended as before, without":  {suspended, suspended.DeepCopy(), "", http.StatusOK},
		"no patch, without":             {nil, testPolicy(), "", http.StatusOK},
		"one that had none, without it": {testPolicy(), patching, "", http.StatusForbidden},
	} {
		w := newWorld(t)
		w.reviewer, w.policies = test.account, []*v1alpha1.EvictionPolicy{}
		answer := w.post(PathPolicy, written(t, test.before, test.policy))
		refused := test.code == http.StatusForbidden
		if answer.Result.Code != test.code || refused && !strings.Contains(answer.Result.Message, "anna may not impersonate serviceaccounts/operator in namespace shop, and provider.patch has Usher do so") {
			t.Errorf("%s: %+v", name, answer.Result)
		}
	}
}

// deletes answers that a user may delete what it names in namespace shop, and nothing else.
type deletes []string

func (d deletes) Review(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, string, error) {
	right := spec.ResourceAttributes
	return spec.User == "anna" && right.Verb == "delete" && right.Namespace == "shop" && slices.Contains(d, right.Resource), "", nil
}

// Who says when members are removed, and what becomes of their volumes, must have the right to delete them: another may have asked for that.
func TestRemovalsTakeTheRightToDelete(t *testing.T) {
	with := func(change func(*v1alpha1.EvictionPolicy)) *v1alpha1.EvictionPolicy {
		p := testPolicy()
		change(p)
		return p
	}
	kept := with(func(p *v1alpha1.EvictionPolicy) {
		p.Spec.Roles[0].Replace.Successor = v1alpha1.SuccessorSameIdentity
		p.Spec.Members[0].Provider = &v1alpha1.Provider{StatefulSet: &v1alpha1.StatefulSetProvider{VolumeClaims: v1alpha1.VolumeClaimsRetain}}
	})
	deleted := kept.DeepCopy()
	deleted.Spec.Members[0].Provider.StatefulSet.VolumeClaims = v1alpha1.VolumeClaimsDelete
	suspended := kept.DeepCopy()
	suspended.Spec.Suspend = true
	if !removes(&v1alpha1.EvictionPolicySpec{Members: []v1alpha1.MemberSelector{{Provider: &v1alpha1.Provider{DeletePod: &v1alpha1.DeletePodProvider{}}}}}) {
		t.Error("a policy that has pods deleted takes no right")
	}
	both := deletes{"pods", "persistentvolumeclaims"}
	for name, test := range map[string]struct {
		before runtime.Object
		policy *v1alpha1.EvictionPolicy
		rights deletes
		code   int32
	}{
		"with both":                          {nil, kept, both, http.StatusOK},
		"without that to delete claims":      {nil, kept, deletes{"pods"}, http.StatusForbidden},
		"volumes go now, without":            {kept, deleted, deletes{"pods"}, http.StatusForbidden},
		"volumes go now, with both":          {kept, deleted, both, http.StatusOK},
		"the same, suspended, without":       {kept, suspended, nil, http.StatusOK},
		"suspended no longer, without":       {suspended, kept, nil, http.StatusForbidden},
		"no provider, without":               {nil, testPolicy(), nil, http.StatusOK},
		"it has a provider no more, without": {kept, testPolicy(), nil, http.StatusOK},
	} {
		w := newWorld(t)
		w.reviewer, w.policies = test.rights, []*v1alpha1.EvictionPolicy{}
		answer := w.post(PathPolicy, written(t, test.before, test.policy))
		refused := test.code == http.StatusForbidden
		if answer.Result.Code != test.code || refused && !strings.Contains(answer.Result.Message, "anna may not delete ") {
			t.Errorf("%s: %+v", name, answer.Result)
		}
	}
}
