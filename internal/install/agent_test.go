package install

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/google/go-cmp/cmp"
)

func TestAgentsOnlyWhereTheyAreWanted(t *testing.T) {
	if has(objects(t, Options{}), "daemonset/") {
		t.Error("agents are installed unasked")
	}
	all := objects(t, Options{Agent: true, Namespace: "guards", Image: "registry.example/usher:v1"})
	for _, ref := range []string{"daemonset/usher-agent in guards-agent", "namespace/guards-agent", "serviceaccount/usher-agent in guards-agent", "deployment/usher-manager in guards"} {
		if !has(all, ref) {
			t.Errorf("%s is missing", ref)
		}
	}
	agents := yamlOf(t, pick(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == "DaemonSet" }))
	if !strings.Contains(agents, "image: registry.example/usher:v1\n") {
		t.Errorf("the image is not there:\n%s", agents)
	}
}

// TestAgentsCountOnceTheyLook: one that starts and ends again and again must not pass for installed.
func TestAgentsCountOnceTheyLook(t *testing.T) {
	for _, object := range objects(t, Options{Agent: true}) {
		if object.GetKind() != "DaemonSet" {
			continue
		}
		var d appsv1.DaemonSet
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &d); err != nil {
			t.Fatal(err)
		}
		probe := d.Spec.Template.Spec.Containers[0].ReadinessProbe
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != "/healthz" {
			t.Errorf("an agent is ready by %v, want what it says of its health", probe)
		}
		return
	}
	t.Error("there are no agents")
}

func TestAgentsBesideAManagerOutside(t *testing.T) {
	all := objects(t, Options{Agent: true, URL: "https://127.0.0.1:8443"})
	if !has(all, "daemonset/") || has(all, "deployment/") {
		t.Error("agents run in the cluster, wherever the manager does")
	}
}

// TestAgentsAreAllowedLittle: what an agent may do, an intruder on one node may.
func TestAgentsAreAllowedLittle(t *testing.T) {
	for _, object := range objects(t, Options{Agent: true}) {
		if object.GetKind() != "ClusterRole" || object.GetName() != "usher-agent" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, never := range []string{"secrets", "nodes/proxy", "pods/exec", "*"} {
				if slices.Contains(rule.Resources, never) || slices.Contains(rule.Verbs, never) {
					t.Errorf("%v", rule)
				}
			}
		}
		return
	}
	t.Error("there is no role")
}

func TestOnEveryNode(t *testing.T) {
	status := func(desired, updated, available int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"generation": int64(2)},
			"status": map[string]any{
				"observedGeneration": int64(2), "desiredNumberScheduled": desired, "updatedNumberScheduled": updated, "numberAvailable": available,
			},
		}}
	}
	tests := []struct {
		now  *unstructured.Unstructured
		ok   bool
		says string
	}{
		{nil, false, "it was deleted"},
		{status(3, 2, 3), false, "2 of 3 nodes have an agent of this version, 3 answer"},
		{status(3, 3, 2), false, "3 of 3 nodes have an agent of this version, 2 answer"},
		{status(3, 3, 3), true, "3 of 3 nodes have an agent of this version, 3 answer"},
	}
	for _, tt := range tests {
		if ok, says := onEveryNode(tt.now); ok != tt.ok || says != tt.says {
			t.Errorf("got %t, %q; want %t, %q", ok, says, tt.ok, tt.says)
		}
	}
}

func TestTaintsGoThoughTheNodeChanges(t *testing.T) {
	node := newObject(schema.GroupVersionKind{Version: "v1", Kind: "Node"}, "worker-1", nil)
	node.SetNamespace("")
	taints := []any{map[string]any{"key": "usher.sh/memory-pressure"}, map[string]any{"key": "dedicated"}}
	if err := unstructured.SetNestedSlice(node.Object, taints, "spec", "taints"); err != nil {
		t.Fatal(err)
	}
	patches := 0
	store := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(node).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if patches++; patches == 1 {
				return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, o.GetName(), errors.New("the kubelet was here"))
			}
			return c.Patch(ctx, o, p, options...)
		},
	}).Build()
	var out strings.Builder
	if err := (remover{Cluster: Cluster{Client: store, Out: &out}}).untaint(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if err := store.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	left, _, _ := unstructured.NestedSlice(node.Object, "spec", "taints")
	if diff := cmp.Diff([]any{map[string]any{"key": "dedicated"}}, left); diff != "" || strings.Count(out.String(), "removed") != 1 {
		t.Errorf("said %q, and left\n%s", out.String(), diff)
	}
}
