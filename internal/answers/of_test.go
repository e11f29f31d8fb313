package answers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var podsResource = schema.GroupResource{Resource: "pods"}

// said is an error as an apiserver sends it.
func said(code int32, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
		Details: &metav1.StatusDetails{Name: "web-1", Kind: "pods", Causes: causes},
	}}
}

func after(err *apierrors.StatusError, seconds int32) *apierrors.StatusError {
	err.ErrStatus.Details.RetryAfterSeconds = seconds
	return err
}

func budgetCause(message string) metav1.StatusCause {
	return metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: message}
}

const cannotEvict = "Cannot evict pod as it would violate the pod's disruption budget."

func TestOf(t *testing.T) {
	cases := map[string]struct {
		err  error
		want Answer
	}{
		"no error": {nil, Answer{Code: Accepted}},
		"a budget that is used up": {
			said(429, metav1.StatusReasonTooManyRequests, cannotEvict, budgetCause("The disruption budget web needs 2 healthy pods and has 2 currently")),
			Answer{Code: RefusedByBudget, Message: cannotEvict + " The disruption budget web needs 2 healthy pods and has 2 currently."},
		},
		"a budget that is not observed": {
			after(said(429, metav1.StatusReasonTooManyRequests, cannotEvict, budgetCause("The disruption budget web is still being processed by the server.")), 10),
			Answer{Code: RefusedForNow, Message: cannotEvict + " The disruption budget web is still being processed by the server.", RetryAfter: 10 * time.Second},
		},
		"a busy server": {
			apierrors.NewTooManyRequests("too many requests, please try again later", 1),
			Answer{Code: RefusedForNow, Message: "too many requests, please try again later", RetryAfter: time.Second},
		},
		"a webhook's 429": {
			after(said(429, metav1.StatusReasonTooManyRequests, `admission webhook "g" denied the request: wait`), 7),
			Answer{Code: RefusedForNow, Message: `admission webhook "g" denied the request: wait`, RetryAfter: 7 * time.Second, Admission: true},
		},
		"a budget out of bounds": {
			said(403, metav1.StatusReasonForbidden, `poddisruptionbudget.policy "web" is forbidden: pdb disruptions allowed is negative`, budgetCause("negative")),
			Answer{Code: RefusedByBudget, Message: `poddisruptionbudget.policy "web" is forbidden: pdb disruptions allowed is negative negative.`},
		},
		"two budgets": code(said(500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."), SeveralBudgets),
		"a namespace that ends": code(
			said(403, metav1.StatusReasonForbidden, `pods "web-1" is forbidden: unable to create new content in namespace shop because it is being terminated`,
				metav1.StatusCause{Type: corev1.NamespaceTerminatingCause}), NamespaceTerminating),
		"RBAC": code(said(403, metav1.StatusReasonForbidden,
			`pods "web-1" is forbidden: User "bob" cannot create resource "pods/eviction" in API group "" in the namespace "shop"`), Forbidden),
		"a bare 403 of a proxy":        code(apierrors.NewGenericServerResponse(403, "post", podsResource, "web-1", "no", 0, true), Forbidden),
		"credentials that have ended":  code(apierrors.NewUnauthorized("Unauthorized"), Forbidden),
		"an admission plugin":          code(apierrors.NewForbidden(podsResource, "web-1", errors.New("not on this node")), Denied),
		"a webhook without a code":     code(said(400, "", `admission webhook "guard.example.com" denied the request: shard master`), Denied),
		"a webhook's 403":              code(said(403, metav1.StatusReasonForbidden, `admission webhook "guard.example.com" denied the request: shard master`), Denied),
		"a webhook's 422":              code(said(422, metav1.StatusReasonInvalid, `admission webhook "guard.example.com" denied the request without explanation`), Denied),
		"a webhook's 404":              code(said(404, metav1.StatusReasonNotFound, `admission webhook "guard.example.com" denied the request: no shard`), Denied),
		"a webhook's 409":              code(said(409, metav1.StatusReasonConflict, `admission webhook "guard.example.com" denied the request: busy`), Denied),
		"a webhook that is rude":       {said(403, "", "admission webhook \"g\" denied the request: \x1b[2J\nrun this:\u202e x"), Answer{Code: Denied, Message: `admission webhook "g" denied the request: run this: x`}},
		"a policy":                     code(said(422, metav1.StatusReasonInvalid, `pods "web-1" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not on a Saturday`), Denied),
		"a webhook that is down":       code(apierrors.NewInternalError(errors.New(`failed calling webhook "guard.example.com": connection refused`)), Unavailable),
		"no such pod":                  code(apierrors.NewNotFound(podsResource, "web-1"), Gone),
		"no such path":                 code(said404Path(), Rejected),
		"another UID, to an eviction":  code(apierrors.NewConflict(podsResource, "web-1", errors.New("the UID in the precondition (a) does not match the UID in record (b). The object might have been deleted and then recreated")), Gone),
		"another UID, to a delete":     code(apierrors.NewConflict(podsResource, "web-1", errors.New("Precondition failed: UID in precondition: a, UID in object meta: b")), Gone),
		"another UID, to a patch":      code(immutableUID(), Gone),
		"another resource version":     code(apierrors.NewConflict(podsResource, "web-1", errors.New("the object has been modified; please apply your changes to the latest version and try again")), Conflict),
		"another field that is wrong":  code(apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web-1", field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), -1, "must be positive")}), Rejected),
		"the server's own time-out":    {apierrors.NewTimeoutError(`couldn't update PodDisruptionBudget "web" due to conflicts`, 10), Answer{Code: Unavailable, Message: `Timeout: couldn't update PodDisruptionBudget "web" due to conflicts`, RetryAfter: 10 * time.Second}},
		"a gateway's time-out":         code(apierrors.NewGenericServerResponse(504, "post", podsResource, "web-1", "", 0, true), Unavailable),
		"a request that took too long": code(said(408, metav1.StatusReasonTimeout, "request timeout"), Unavailable),
		"a server that starts":         code(apierrors.NewServiceUnavailable("starting"), Unavailable),
		"a bad request":                code(apierrors.NewBadRequest("no"), Rejected),
		"no connection":                code(&url.Error{Op: "Post", URL: "https://x", Err: syscall.ECONNREFUSED}, Unavailable),
		"our own time-out":             code(fmt.Errorf("evicting: %w", context.DeadlineExceeded), Unavailable),
		"wrapped":                      code(fmt.Errorf("evicting: %w", apierrors.NewNotFound(podsResource, "web-1")), Gone),
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Of(c.err)
			if c.want.Message == "" {
				got.Message, got.RetryAfter = "", c.want.RetryAfter
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

type expected = struct {
	err  error
	want Answer
}

// code expects a code and any words.
func code(err error, want Code) expected { return expected{err, Answer{Code: want}} }

func said404Path() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "post", schema.GroupResource{}, "", "404 page not found", 0, true)
}

func immutableUID() error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web-1", field.ErrorList{
		field.Invalid(field.NewPath("metadata", "uid"), "a", "field is immutable"),
	})
}
