package act

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

func TestSetsWriteWithPreconditions(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kv", UID: "s"}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kv-member-1", UID: "u"}}
	request := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kv-member-1-surplus", UID: "q"}}
	var deleted []types.UID // what the preconditions name: the fake client does not look at them
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(set, service, request).WithStatusSubresource(set).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
			var all client.DeleteOptions
			deleted = append(deleted, *all.ApplyOptions(options).Preconditions.UID)
			return nil
		},
	}).Build()
	w := &Sets{Client: c}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
		t.Fatal(err)
	}
	early := set.DeepCopy()
	changed, answer := w.WriteStatus(t.Context(), set, &v1alpha1.MemberSetStatus{MemberCount: 1})
	wantCode(t, answer, answers.Accepted)
	if changed.Status.MemberCount != 1 {
		t.Errorf("written is %+v", changed.Status)
	}
	_, answer = w.WriteStatus(t.Context(), early, &v1alpha1.MemberSetStatus{MemberCount: 2})
	wantCode(t, answer, answers.Conflict)
	service.ResourceVersion = ""
	wantCode(t, w.Make(t.Context(), service), answers.Conflict)
	key, mark := snapshot.Key{Namespace: "shop", Name: service.Name}, snapshot.Key{Namespace: "shop", Name: request.Name}
	for _, answer := range []answers.Answer{w.DeleteService(t.Context(), key, ""), w.Unmark(t.Context(), mark, "")} {
		if answer.Code == answers.Accepted {
			t.Error("something is deleted without its UID")
		}
	}
	wantCode(t, w.DeleteService(t.Context(), key, "u"), answers.Accepted)
	wantCode(t, w.Unmark(t.Context(), mark, "q"), answers.Accepted)
	if diff := cmp.Diff([]types.UID{"u", "q"}, deleted); diff != "" {
		t.Error(diff)
	}
}
