package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"usher.sh/usher/api/v1alpha1"
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

// Data is given up by the user who says so, with the rights of who creates a request, and not by Usher itself.
func TestAbandonmentIsAPersonsWord(t *testing.T) {
	request := func(requester string) []byte {
		q := &v1alpha1.ReplacementRequest{}
		if requester != "" {
			q.Spec.Abandonment = &v1alpha1.ReplacementAbandonment{Requester: requester, Rules: []string{"others-ready"}}
		}
		raw, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	both := mayDelete{resources: "pods persistentvolumeclaims"}
	for name, test := range map[string]struct {
		reviewer    mayDelete
		user        string
		object, old []byte
		message     string // in the refusal; "": it is accepted
	}{
		"created with one's own":   {reviewer: both, user: "anna", object: request("anna")},
		"created with another's":   {reviewer: both, user: "anna", object: request("bert"), message: "must be the user who gives the data up: anna"},
		"added as one's own":       {reviewer: both, user: "anna", object: request("anna"), old: request("")},
		"added as another's":       {reviewer: both, user: "anna", object: request("bert"), old: request(""), message: "must be the user who gives the data up: anna"},
		"added without the rights": {reviewer: mayDelete{resources: "pods"}, user: "anna", object: request("anna"), old: request(""), message: "anna may not delete persistentvolumeclaims"},
		"it was given before":      {reviewer: both, user: "anna", object: request("bert"), old: request("bert")},
		"by Usher":                 {reviewer: both, user: "usher", object: request("usher"), old: request(""), message: "usher gives up no data"},
		"nothing is given up":      {reviewer: both, user: "anna", object: request("")},
		"it cannot be read":        {reviewer: both, user: "anna", object: []byte("{"), message: "reading the ReplacementRequest"},
	} {
		h := &replacementHandler{Options{Reviewer: test.reviewer, Self: []string{"usher"}}}
		asked := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Namespace: "shop", Operation: admissionv1.Create, UserInfo: authenticationv1.UserInfo{Username: test.user}, Object: runtime.RawExtension{Raw: test.object},
		}}
		if test.old != nil {
			asked.Operation, asked.OldObject.Raw = admissionv1.Update, test.old
		}
		answer := h.Handle(t.Context(), asked)
		if answer.Allowed != (test.message == "") || !answer.Allowed && !strings.Contains(answer.Result.Message, test.message) {
			t.Errorf("%s: %+v", name, answer.Result)
		}
	}
}
