package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/snapshot"
)

// What maintenances set on a node beside drains is set in one write with its record, by the version that was read, and taken back by whichever process looks next.
func TestMarksAreWrittenWithTheirRecord(t *testing.T) {
	foreign := corev1.Taint{Key: "a", Value: "b", Effect: corev1.TaintEffectNoExecute}
	bad := corev1.Taint{Key: "example.com/bad", Effect: corev1.TaintEffectNoSchedule}
	of := func(name string, spec v1alpha1.NodeMaintenanceSpec) *v1alpha1.NodeMaintenance {
		spec.Nodes, spec.WhenDrained = v1alpha1.NodeSelection{Names: []string{"n1"}}, v1alpha1.WhenDrained{KeepCordoned: &v1alpha1.KeepCordoned{}}
		return &v1alpha1.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "m", CreationTimestamp: metav1.NewTime(noon), Finalizers: []string{maintenance.Finalizer}}, Spec: spec,
		}
	}
	g := newMarkRig(t, of("c", v1alpha1.NodeMaintenanceSpec{Action: v1alpha1.ActionCordon}),
		of("t", v1alpha1.NodeMaintenanceSpec{Action: v1alpha1.ActionTaint, Taint: &v1alpha1.MaintenanceTaint{Key: "example.com/bad"}}),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{foreign}}})
	g.look() // entries
	g.look() // marks
	n := g.node()
	if diff := cmp.Diff([]corev1.Taint{foreign, bad}, n.Spec.Taints); diff != "" || !n.Spec.Unschedulable || n.Annotations[snapshot.MarksAnnotation] != "cordon,example.com/bad:NoSchedule" {
		t.Fatalf("%+v, %v: (-want +got):\n%s", n.Spec, n.Annotations, diff)
	}
	if g.patches != 1 {
		t.Errorf("%d writes", g.patches)
	}
	g.look()
	g.look()
	if g.patches != 1 {
		t.Errorf("written anew: %d", g.patches)
	}
	for _, name := range []string{"c", "t"} {
		if err := g.Delete(t.Context(), of(name, v1alpha1.NodeMaintenanceSpec{})); err != nil {
			t.Fatal(err)
		}
	}
	g.refuse = apierrors.NewConflict(schema.GroupResource{}, "n1", errors.New("changed"))
	if again := g.look(); again != racedAgain {
		t.Errorf("looked at again after %s", again)
	}
	g.refuse = errors.New("connection refused")
	if again := g.look(); again != failedAgain {
		t.Errorf("looked at again after %s", again)
	}
	g.refuse = nil
	for range 4 {
		g.look()
	}
	n = g.node()
	if diff := cmp.Diff([]corev1.Taint{foreign}, n.Spec.Taints); diff != "" || n.Spec.Unschedulable || len(n.Annotations) > 0 {
		t.Errorf("%+v, %v: (-want +got):\n%s", n.Spec, n.Annotations, diff)
	}
	var left v1alpha1.NodeMaintenanceList
	if err := g.List(t.Context(), &left); err != nil || len(left.Items) > 0 {
		t.Errorf("left: %+v, %v", left.Items, err)
	}
}

// markRig has one node, and a new process at each look.
type markRig struct {
	client.WithWatch

	t       *testing.T
	refuse  error
	patches int
}

func newMarkRig(t *testing.T, objects ...client.Object) *markRig {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	g := &markRig{t: t}
	g.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.NodeMaintenance{}, &corev1.Node{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if _, is := object.(*corev1.Node); !is {
					return c.Patch(ctx, object, patch, options...)
				}
				if g.refuse != nil {
					return g.refuse
				}
				g.patches++
				return c.Patch(ctx, object, patch, options...)
			},
		}).Build()
	return g
}

func (g *markRig) look() time.Duration {
	g.t.Helper()
	now := func() time.Time { return noon }
	o := Options{Now: now, Log: slog.New(slog.DiscardHandler), Act: &act.Maintenance{Client: g.WithWatch, Now: now}}
	r := &reconciler{Options: o, client: g.WithWatch, live: g.WithWatch, drains: newDrains(o), calls: newCalls()}
	result, err := r.reconcile(g.t.Context(), reconcile.Request{})
	if err != nil {
		g.t.Fatal(err)
	}
	return result.RequeueAfter
}

func (g *markRig) node() *corev1.Node {
	g.t.Helper()
	var n corev1.Node
	if err := g.Get(g.t.Context(), client.ObjectKey{Name: "n1"}, &n); err != nil {
		g.t.Fatal(err)
	}
	return &n
}
