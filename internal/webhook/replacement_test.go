package webhook

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// mayDelete answers that a user may delete these resources in namespace shop, or an error.
type mayDelete struct {
	resources string
	err       error
}

func (m mayDelete) Review(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, string, error) {
	right := spec.ResourceAttributes
	return spec.User == "anna" && right.Namespace == "shop" && right.Verb == "delete" && strings.Contains(m.resources, right.Resource), "", m.err
}

// Who requests a replacement must have the right to delete what it has Usher delete.
func TestReplacementsTakeRights(t *testing.T) {
	for name, test := range map[string]struct {
		reviewer mayDelete
		code     int32
		message  string
	}{
		"both rights":   {mayDelete{resources: "pods persistentvolumeclaims"}, http.StatusOK, ""},
		"pods only":     {mayDelete{resources: "pods"}, http.StatusForbidden, "anna may not delete persistentvolumeclaims in namespace shop, and this ReplacementRequest has Usher do so"},
		"claims only":   {mayDelete{resources: "persistentvolumeclaims"}, http.StatusForbidden, "anna may not delete pods in namespace shop"},
		"it is unknown": {mayDelete{err: errors.New("no answer")}, http.StatusServiceUnavailable, "no answer"},
	} {
		h := &replacementHandler{Options{Reviewer: test.reviewer}}
		answer := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Namespace: "shop", Operation: admissionv1.Create, UserInfo: authenticationv1.UserInfo{Username: "anna"},
		}})
		if answer.Result.Code != test.code || !strings.Contains(answer.Result.Message, test.message) || answer.Allowed != (test.code == http.StatusOK) {
			t.Errorf("%s: %+v", name, answer.Result)
		}
	}
}
