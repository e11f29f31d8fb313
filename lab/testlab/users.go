package testlab

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"usher.sh/usher/lab/cluster"
)

// As makes a user who may do what the rules say, in all namespaces, and what every user may (discovery). It returns the
// user's access and the path of a kubeconfig with it. The user's name is the scope of the test with a number.
func (l *Lab) As(tb testing.TB, rules []rbacv1.PolicyRule) (config *rest.Config, kubeconfig string) {
	tb.Helper()
	name := scope(tb) + "-user-" + unique()
	l.grant(tb, name, rules)
	kubeconfig = filepath.Join(tb.TempDir(), name+".kubeconfig")
	check(tb, "making a user", l.cluster.WriteKubeconfig(kubeconfig, name))
	config, err := cluster.LoadRESTConfig(kubeconfig)
	check(tb, "making a user", err)
	l.awaitGrant(tb, config, rules)
	return config, kubeconfig
}

func (l *Lab) grant(tb testing.TB, user string, rules []rbacv1.PolicyRule) {
	tb.Helper()
	meta := metav1.ObjectMeta{Name: user}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}
	_, err := l.client.RbacV1().ClusterRoles().Create(tb.Context(), role, metav1.CreateOptions{})
	check(tb, "creating cluster role", err)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
	}
	_, err = l.client.RbacV1().ClusterRoleBindings().Create(tb.Context(), binding, metav1.CreateOptions{})
	check(tb, "creating cluster role binding", err)
	tb.Cleanup(func() {
		ctx := context.WithoutCancel(tb.Context())
		_ = l.client.RbacV1().ClusterRoleBindings().Delete(ctx, user, metav1.DeleteOptions{})
		_ = l.client.RbacV1().ClusterRoles().Delete(ctx, user, metav1.DeleteOptions{})
	})
}

// awaitGrant asks until the apiserver's authorizer has seen the role. It keeps that to itself: nothing can be watched.
func (l *Lab) awaitGrant(tb testing.TB, config *rest.Config, rules []rbacv1.PolicyRule) {
	tb.Helper()
	attributes, ok := sample(rules)
	if !ok {
		return
	}
	client, err := kubernetes.NewForConfig(config)
	check(tb, "making a user", err)
	granted := func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
		}
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	}
	err = wait.PollUntilContextTimeout(tb.Context(), 20*time.Millisecond, waitTimeout, true, granted)
	check(tb, "waiting until the user's role is in force", err)
}

// sample returns one request that the rules allow; not ok when they name no resource.
func sample(rules []rbacv1.PolicyRule) (*authorizationv1.ResourceAttributes, bool) {
	for _, r := range rules {
		if len(r.Resources) == 0 || len(r.APIGroups) == 0 || len(r.Verbs) == 0 {
			continue
		}
		resource, sub, _ := strings.Cut(r.Resources[0], "/")
		a := &authorizationv1.ResourceAttributes{Verb: r.Verbs[0], Group: r.APIGroups[0], Resource: resource, Subresource: sub}
		if len(r.ResourceNames) > 0 {
			a.Name = r.ResourceNames[0]
		}
		return a, true
	}
	return nil, false
}
