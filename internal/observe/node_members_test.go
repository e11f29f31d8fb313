package observe

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
)

// Pods are read only where a policy has an order, and what cannot be read is said with what would allow it, beside what was read before.
func TestLookAtMembers(t *testing.T) {
	policy := func(after ...string) *v1alpha1.EvictionPolicy {
		p := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack", Name: "cloud"}}
		for _, role := range []string{"vm", "l2"} {
			p.Spec.Members = append(p.Spec.Members, v1alpha1.MemberSelector{Role: role, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": role}}})
		}
		p.Spec.Members[1].LeavesAfter = after
		return p
	}
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "openstack", Name: name + "-" + node, UID: types.UID(name + node), Labels: map[string]string{"app": name}},
			Spec:       corev1.PodSpec{NodeName: node},
		}
	}
	for name, c := range map[string]struct {
		policy    *v1alpha1.EvictionPolicy
		node      string
		refused   string
		namespace string
		policies  int
		order     bool
		pods      int // lists of pods
		err       string
	}{
		"an order":            {policy("vm"), "n7", "", "", 1, true, 1, ""},
		"no order":            {policy(), "n7", "", "", 1, false, 0, ""},
		"no node is meant":    {policy("vm"), "", "", "openstack", 1, false, 0, ""},
		"another namespace":   {policy("vm"), "n7", "", "shop", 0, false, 0, ""},
		"one of the two only": {policy("vm"), "n8", "", "", 1, false, 1, ""},
		"policies refused":    {policy("vm"), "n7", "evictionpolicies", "", 0, false, 0, "reading policies, which say what is done for members"},
		"pods refused":        {policy("vm"), "n7", "pods", "", 1, false, 1, "reading the pods of node n7"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			pods := 0
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.policy, pod("vm", "n7"), pod("l2", "n7"), pod("vm", "n8")).
				WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
				WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					resource := "evictionpolicies"
					if _, is := list.(*corev1.PodList); is {
						resource, pods = "pods", pods+1
					}
					if resource == c.refused {
						return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
					}
					return w.List(ctx, list, options...)
				}}).Build()
			found, err := LookAtMembers(t.Context(), reader, c.namespace, c.node)
			if (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%v", err)
			}
			if len(found.Policies) != c.policies || (len(found.Orders) > 0) != c.order || pods != c.pods {
				t.Errorf("%d policies, %d lists of pods, %+v", len(found.Policies), pods, found.Orders)
			}
		})
	}
}
