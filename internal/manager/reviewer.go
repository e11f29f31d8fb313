package manager

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// reviewer asks the apiserver who users are, and what they may do.
type reviewer struct{ client kubernetes.Interface }

// Review implements webhook.Reviewer.
func (r reviewer) Review(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (allowed bool, reason string, err error) {
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	answer, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, "", fmt.Errorf("reviewing access: %w", err)
	}
	return answer.Status.Allowed, answer.Status.Reason, nil
}

// Authenticate asks who a token stands for. It takes the role of config/notices.
func (r reviewer) Authenticate(ctx context.Context, token string) (user authenticationv1.UserInfo, is bool, err error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	answer, err := r.client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return user, false, fmt.Errorf("reviewing a token: %w", err)
	}
	return answer.Status.User, answer.Status.Authenticated, nil
}
