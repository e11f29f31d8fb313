package install

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

var (
	policyKind      = schema.GroupVersionKind{Group: "usher.sh", Version: "v1alpha1", Kind: "EvictionPolicy"}
	requestKind     = schema.GroupVersionKind{Group: "lifecycle.k8s.io", Version: "v1alpha1", Kind: "EvictionRequest"}
	ownRequest      = schema.GroupVersionKind{Group: lifecycleGroup, Version: "v1alpha1", Kind: "EvictionRequest"}
	fenceKind       = schema.GroupVersionKind{Group: "usher.sh", Version: "v1alpha1", Kind: "NodeFence"}
	fencingKind     = schema.GroupVersionKind{Group: "usher.sh", Version: "v1alpha1", Kind: "LostNodePolicy"}
	maintenanceKind = schema.GroupVersionKind{Group: "usher.sh", Version: "v1alpha1", Kind: "NodeMaintenance"}
	configKind      = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	crdKind         = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	bindingKind     = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}
)

func newObject(kind schema.GroupVersionKind, name string, fields map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace("prod")
	o.SetName(name)
	for path, value := range fields {
		_ = unstructured.SetNestedField(o.Object, value, strings.Split(path, ".")...)
	}
	return o
}

// removing is a remover over a store that notes what is deleted, and what happens to finalizers.
func removing(t *testing.T, faults interceptor.Funcs, objects ...client.Object) (remover, *[]string, *strings.Builder) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, kind := range []schema.GroupVersionKind{policyKind, requestKind, ownRequest, bindingKind, fenceKind, fencingKind, crdKind, maintenanceKind, configKind} {
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
		list := kind
		list.Kind += "List"
		scheme.AddKnownTypeWithName(list, &unstructured.UnstructuredList{})
	}
	deleted := &[]string{}
	faults.Delete = func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
		err := c.Delete(ctx, o, options...)
		if !apierrors.IsNotFound(err) {
			*deleted = append(*deleted, o.GetName())
		}
		return err
	}
	faults.Watch = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
		w, err := c.Watch(ctx, list, options...)
		if err == nil {
			context.AfterFunc(ctx, w.Stop) // as a connection would end
		}
		return w, err
	}
	out := &strings.Builder{}
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(faults).
		WithIndex(newObject(policyKind, "", nil), "metadata.name", byName).
		WithIndex(newObject(fenceKind, "", nil), "metadata.name", byName).
		WithIndex(newObject(maintenanceKind, "", nil), "metadata.name", byName).
		WithIndex(newObject(crdKind, "", nil), "metadata.name", byName).Build()
	return remover{Cluster: Cluster{Client: store, Out: out, UndoPatience: 100 * time.Millisecond, RemovalPatience: 100 * time.Millisecond}}, deleted, out
}

func TestRequestsThatAreRemoved(t *testing.T) {
	by := func(kind schema.GroupVersionKind, name, requester string) client.Object {
		return newObject(kind, name, map[string]string{"spec.requester": requester})
	}
	r, deleted, _ := removing(t, interceptor.Funcs{},
		by(requestKind, "refused", "requester.usher.sh/jane"), by(requestKind, "drained", "drain.usher.sh/n1"), by(requestKind, "theirs", "karpenter.sh/x"),
		by(ownRequest, "ours", "karpenter.sh/x"))
	if err := r.requests(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(*deleted)
	if diff := cmp.Diff([]string{"drained", "ours", "refused"}, *deleted); diff != "" {
		t.Error(diff)
	}
}

// Without its policy a request that was held back is carried out: it has to go before.
func TestRequestsGoBeforeWhatHoldsThemBack(t *testing.T) {
	r, deleted, _ := removing(t, interceptor.Funcs{}, newObject(policyKind, "policy", nil),
		newObject(requestKind, "request", map[string]string{"spec.requester": "requester.usher.sh/jane"}),
		newObject(bindingKind, "login", map[string]string{"roleRef.kind": "ClusterRole", "roleRef.name": "usher-secrets"}),
		newObject(bindingKind, "another", map[string]string{"roleRef.kind": "Role", "roleRef.name": "usher-secrets"}))
	if err := r.Remove(t.Context(), nil, "usher-system", false); err != nil {
		t.Fatal(err)
	}
	got := (*deleted)[:min(3, len(*deleted))]
	if diff := cmp.Diff([]string{"request", "policy", "login"}, got); diff != "" {
		t.Errorf("the first that were deleted: %s", diff)
	}
	if slices.Contains(*deleted, "another") {
		t.Error("a binding to another role was deleted")
	}
}

// A read-only removal sends no write, and reports the same as a removal.
func TestReadOnlyRemovesNothing(t *testing.T) {
	wrote := errors.New("a write was sent")
	r, deleted, out := removing(t, interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return wrote
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return wrote
		},
	}, newObject(policyKind, "policy", nil), newObject(requestKind, "request", map[string]string{"spec.requester": "requester.usher.sh/jane"}))
	absent := newObject(policyKind, "absent", nil)
	if _, err := (remover{r.ReadOnly(), true}).delete(t.Context(), absent); err != nil {
		t.Fatal(err)
	}
	if err := r.ReadOnly().Remove(t.Context(), nil, "usher-system", true); err != nil {
		t.Fatal(err)
	}
	if len(*deleted) > 0 {
		t.Errorf("deletions were sent: %v", *deleted)
	}
	for _, want := range []string{"request would be removed", "policy would be removed"} {
		if !strings.Contains(strings.ReplaceAll(out.String(), " in prod", ""), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "absent") {
		t.Errorf("what is not there is said to be removed:\n%s", out)
	}
}

// TestWhatOthersHoldIsLeftToThem: a policy whose preparations are not undone is let go, but not on behalf of other clients, which may
// just have put their own finalizers there.
func TestWhatOthersHoldIsLeftToThem(t *testing.T) {
	policy := newObject(policyKind, "db", nil)
	policy.SetFinalizers([]string{"backup.example.com/snapshot", v1alpha1.UndoFinalizer})
	conflicts := 0
	r, _, out := removing(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
		if conflicts++; conflicts == 1 {
			return apierrors.NewConflict(schema.GroupResource{Resource: "evictionpolicies"}, o.GetName(), nil)
		}
		return c.Patch(ctx, o, p, options...)
	}}, policy)
	if err := r.policies(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"backup.example.com/snapshot"}, policy.GetFinalizers()); diff != "" {
		t.Errorf("finalizers: %s", diff)
	}
	if !strings.Contains(out.String(), "stays until backup.example.com/snapshot is removed by its owner") {
		t.Errorf("said:\n%s", out)
	}
}

// Where the configuration of notices stays until their maintenances are gone, the manager makes them anew.
func TestConfigurationOfNoticesGoesBeforeMaintenances(t *testing.T) {
	config := newObject(configKind, "usher-notices", nil)
	config.SetNamespace("usher-system")
	r, deleted, _ := removing(t, interceptor.Funcs{}, newObject(maintenanceKind, "notice-n1", nil), config)
	if err := r.Remove(t.Context(), nil, "usher-system", false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"usher-notices", "notice-n1"}, (*deleted)[:min(2, len(*deleted))]); diff != "" {
		t.Error(diff)
	}
}

// A fence of a node that has not come back is let go where the manager does not, and what it leaves on the node is said. What would have the node fenced anew
// goes before.
func TestFencesAreLetGo(t *testing.T) {
	fence := func(name, taint string) *unstructured.Unstructured {
		f := newObject(fenceKind, name, map[string]string{"spec.nodeName": "node-" + name})
		_ = unstructured.SetNestedField(f.Object, taint, "status", "taint")
		f.SetFinalizers([]string{v1alpha1.FenceFinalizer})
		return f
	}
	r, deleted, out := removing(t, interceptor.Funcs{}, fence("a", "Usher"), fence("b", "Other"), newObject(fencingKind, "policy", nil))
	if err := r.Remove(t.Context(), nil, "usher-system", false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"policy", "a", "b"}, (*deleted)[:min(3, len(*deleted))]); diff != "" {
		t.Error(diff)
	}
	if left, err := r.list(t.Context(), fenceKind); err != nil || len(left) > 0 {
		t.Errorf("there are %v, %v", left, err)
	}
	const says = "node node-a may still have the taint node.kubernetes.io/out-of-service=usher; where its machine runs: kubectl taint nodes node-a node.kubernetes.io/out-of-service-"
	if !strings.Contains(out.String(), says) || strings.Contains(out.String(), "node-b may") {
		t.Errorf("said:\n%s", out)
	}
}

// The apiserver holds the definition and has forgotten it: only a change makes it look again.
func TestADefinitionThatWasLostSightOf(t *testing.T) {
	definition := newObject(crdKind, "evictions.lifecycle.usher.sh", nil)
	definition.SetNamespace("")
	definition.SetFinalizers([]string{cleanup})
	r, _, out := removing(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
		if err := c.Patch(ctx, o, p, options...); err != nil {
			return err
		}
		o.SetFinalizers(nil)
		return c.Update(ctx, o)
	}}, definition)
	if err := r.deleteAll(t.Context(), []*unstructured.Unstructured{definition}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.gone(ctx, definition); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "not gone after 100ms; the apiserver is asked to look again") {
		t.Errorf("said:\n%s", out)
	}
}

func TestWhatHoldsADefinition(t *testing.T) {
	for held, want := range map[string]string{
		cleanup:                "waiting until its objects are gone",
		"backup.example.com/x": "waiting until backup.example.com/x is removed by its owner",
	} {
		definition := newObject(crdKind, "evictions.lifecycle.usher.sh", nil)
		definition.SetFinalizers([]string{held})
		if ok, still := isGone(definition); ok || still != want {
			t.Errorf("held by %s: %t, %q", held, ok, still)
		}
	}
	if ok, _ := isGone(nil); !ok {
		t.Error("what is not there is not gone")
	}
}

func TestOnlyWhatRunsPodsGoesAfterThem(t *testing.T) {
	for kind, want := range map[string]metav1.DeletionPropagation{
		"Deployment": metav1.DeletePropagationForeground, "DaemonSet": metav1.DeletePropagationForeground,
		"ClusterRole": metav1.DeletePropagationBackground, "CustomResourceDefinition": metav1.DeletePropagationBackground,
	} {
		if got := propagation(newObject(schema.GroupVersionKind{Version: "v1", Kind: kind}, "usher", nil)); got != client.PropagationPolicy(want) {
			t.Errorf("%s: got %s, want %s", kind, got, want)
		}
	}
}
