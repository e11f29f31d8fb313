package act

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/maintenance"
)

// A Node that has changed since, or another one of its name, is not deleted.
func TestNodesAreDeletedAsTheyWereSeen(t *testing.T) {
	var got *metav1.Preconditions // the fake client does not look at them
	c := fake.NewClientBuilder().WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
			got = new(client.DeleteOptions).ApplyOptions(options).Preconditions
			return nil
		},
	}).Build()
	w := &Maintenance{Client: c}
	seen := maintenance.Deletion{Call: maintenance.Call{Node: "u"}, Node: "n1", ResourceVersion: "7"}
	wantCode(t, w.DeleteNode(t.Context(), seen), answers.Accepted)
	want := metav1.Preconditions{UID: &seen.Call.Node, ResourceVersion: &seen.ResourceVersion}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("preconditions (-want +got):\n%s", diff)
	}
}
