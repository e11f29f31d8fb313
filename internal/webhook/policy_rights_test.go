package webhook

import (
	"context"
	"encoding/json"
	"net/http"
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
		review := admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
			Request: &admissionv1.AdmissionRequest{
				UID: "r1", Operation: admissionv1.Create, Namespace: "shop", Name: "db", UserInfo: authenticationv1.UserInfo{Username: "anna"},
				Object: runtime.RawExtension{Object: test.policy}, OldObject: runtime.RawExtension{Object: test.before},
			},
		}
		body, err := json.Marshal(review)
		if err != nil {
			t.Fatal(err)
		}
		answer := w.post(PathPolicy, string(body))
		refused := test.code == http.StatusForbidden
		if answer.Result.Code != test.code || refused && !strings.Contains(answer.Result.Message, "anna may not impersonate serviceaccounts/operator in namespace shop, and provider.patch has Usher do so") {
			t.Errorf("%s: %+v", name, answer.Result)
		}
	}
}
