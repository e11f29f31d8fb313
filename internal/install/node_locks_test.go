package install

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.sh/usher/internal/snapshot"
)

// TestNodeLocksGiveTheManagerNothingByThemselves: it acts as a ServiceAccount where a namespace lets it, and on nodes as nothing else.
func TestNodeLocksGiveTheManagerNothingByThemselves(t *testing.T) {
	all := objects(t, Options{})
	for _, object := range all {
		if ref, _, _ := unstructured.NestedString(object.Object, "roleRef", "name"); ref == "usher-node-locks-impersonate" {
			t.Errorf("%s binds the role, which is a namespace's to bind", Ref(object))
		}
		if object.GetKind() != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			t.Fatal(err)
		}
		want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}}}
		if diff := cmp.Diff(want, role.Rules); role.Name == "usher-node-locks-impersonate" && diff != "" {
			t.Errorf("it may do more than act as ServiceAccounts, or less: %s", diff)
		}
		if writes := slices.DeleteFunc(verbsOn(&role, "nodes"), func(v string) bool { return slices.Contains([]string{"get", "list", "watch"}, v) }); role.Name == "usher-manager" && len(writes) > 0 {
			t.Errorf("the manager may %v nodes by itself", writes)
		}
	}
	if !has(all, "clusterrole/usher-node-locks-impersonate") {
		t.Error("there is no role to bind")
	}
}

// What a policy has locked is named where no manager takes it off, with a command that does.
func TestLocksThatAreLeftAreNamed(t *testing.T) {
	policy := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"nodeLock": map[string]any{"lockPrefix": "lock.example.com", "holders": []any{"router"}},
	}}}
	policy.SetNamespace("stack")
	policy.SetName("neutron")
	want := "kubectl annotate nodes --all lock.example.com/" + snapshot.NodeLockName(snapshot.Key{Namespace: "stack", Name: "neutron"}, "router") + "-"
	if got := leftOfPolicy(policy); len(got) != 1 || !strings.HasSuffix(got[0], want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := leftOfPolicy(&unstructured.Unstructured{Object: map[string]any{}}); got != nil {
		t.Errorf("of a policy that locks nothing: %q", got)
	}
}
