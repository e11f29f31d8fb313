package webhook

import (
	"context"
	"fmt"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Reviewer answers whether a user may do something.
type Reviewer interface {
	Review(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (allowed bool, reason string, err error)
}

// review refuses a request whose user lacks one of the rights that what is written takes; nil: it has them all.
func (o *Options) review(ctx context.Context, request *admission.Request, rights []authorizationv1.ResourceAttributes, what string) *admission.Response {
	for _, right := range rights {
		allowed, reason, err := o.Reviewer.Review(ctx, reviewOf(request, right))
		var refused admission.Response
		switch {
		case err != nil:
			refused = admission.Errored(http.StatusServiceUnavailable, fmt.Errorf("asking whether %s may %s %s: %w", request.UserInfo.Username, right.Verb, right.Resource, err))
		case !allowed:
			refused = admission.Denied(forbiddenWords(request.UserInfo.Username, right, what, reason))
		default:
			continue
		}
		return &refused
	}
	return nil
}

func reviewOf(request *admission.Request, right authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewSpec {
	user := request.UserInfo
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	return authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &right, User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra}
}

func forbiddenWords(user string, right authorizationv1.ResourceAttributes, what, reason string) string {
	where := "all namespaces"
	if right.Namespace != "" {
		where = "namespace " + right.Namespace
	}
	resource := right.Resource
	if right.Name != "" {
		resource += "/" + right.Name
	}
	words := fmt.Sprintf("%s may not %s %s in %s, and %s has Usher do so: it needs that right, or has to be created by a user or controller that has it",
		user, right.Verb, resource, where, what)
	if reason != "" {
		words += " (" + reason + ")"
	}
	return words
}
