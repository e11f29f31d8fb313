package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/maintenance"
)

// A maintenance whose status cannot be written holds no other one: its nodes get their conditions, and are looked at again in time.
func TestRefusedStatusHoldsNoOther(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kept := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "kept", UID: "kept", Finalizers: []string{maintenance.Finalizer}, CreationTimestamp: metav1.NewTime(noon)},
		Spec:       v1alpha1.NodeMaintenanceSpec{Nodes: v1alpha1.NodeSelection{Names: []string{"n2"}}, WhenDrained: v1alpha1.WhenDrained{KeepCordoned: &v1alpha1.KeepCordoned{}}},
		Status:     v1alpha1.NodeMaintenanceStatus{SelectedNodes: []string{"n2"}, Nodes: []v1alpha1.MaintainedNode{{Name: "n2", UID: "n2", Step: v1alpha1.StepDrained}}},
	}
	refused := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "refused", UID: "refused", CreationTimestamp: metav1.NewTime(noon)},
		Spec:       v1alpha1.NodeMaintenanceSpec{Nodes: v1alpha1.NodeSelection{Names: []string{"n1"}}},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2", UID: "n2"}, Spec: corev1.NodeSpec{Unschedulable: true}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(kept, refused, node).WithStatusSubresource(kept, node).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
				if object.GetName() == "refused" {
					return errors.New("trying to send message larger than max")
				}
				return c.SubResource(sub).Patch(ctx, object, patch, options...)
			},
		}).Build()
	o := Options{Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler), Act: &act.Maintenance{Client: c, Now: func() time.Time { return noon }}}
	r := &reconciler{Options: o, client: c, live: c, drains: newDrains(o), calls: newCalls()}
	result, err := r.reconcile(t.Context(), reconcile.Request{})
	if err != nil || result.RequeueAfter != failedAgain {
		t.Errorf("looked at again after %s, %v", result.RequeueAfter, err)
	}
	var n corev1.Node
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n2"}, &n); err != nil {
		t.Fatal(err)
	}
	if len(n.Status.Conditions) == 0 {
		t.Error("the node of the other maintenance has no conditions")
	}
}
