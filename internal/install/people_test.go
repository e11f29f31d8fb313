package install

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestPoliciesAreWrittenByAdminsOnly: the author of a policy has the manager ask at addresses of the author's choice, and reads the
// answers in its status.
func TestPoliciesAreWrittenByAdminsOnly(t *testing.T) {
	may := map[string][]string{}
	for _, object := range objects(t, Options{}) {
		if object.GetKind() != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, person := range []string{"view", "edit", "admin"} {
			if role.Labels["rbac.authorization.k8s.io/aggregate-to-"+person] == "true" {
				may[person] = append(may[person], verbsOn(&role, "evictionpolicies")...)
			}
		}
	}
	for person, writes := range map[string]bool{"view": false, "edit": false, "admin": true} {
		if !slices.Contains(may[person], "get") || slices.Contains(may[person], "*") {
			t.Errorf("%s may %v", person, may[person])
		}
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
			if slices.Contains(may[person], verb) != writes {
				t.Errorf("%s policies: %s may %v", verb, person, may[person])
			}
		}
	}
}

// TestLostNodesAreForAdminsOfTheCluster: a policy of lost nodes powers machines off, and a fence releases their disks.
func TestLostNodesAreForAdminsOfTheCluster(t *testing.T) {
	for _, object := range objects(t, Options{}) {
		if object.GetKind() != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, resource := range []string{"lostnodepolicies", "nodefences", "nodefences/status"} {
			if verbs := verbsOn(&role, resource); len(verbs) > 0 && role.Name != "usher-manager" && role.Name != "usher-lost-nodes" {
				t.Errorf("%s may %v %s", role.Name, verbs, resource)
			}
		}
	}
	for _, object := range objects(t, Options{}) {
		ref, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
		if ref == "usher-lost-nodes" {
			t.Errorf("%s binds the role, which is an admin's to bind", Ref(object))
		}
	}
}

func verbsOn(role *rbacv1.ClusterRole, resource string) []string {
	var verbs []string
	for _, rule := range role.Rules {
		if slices.Contains(rule.Resources, resource) || slices.Contains(rule.Resources, "*") {
			verbs = append(verbs, rule.Verbs...)
		}
	}
	return verbs
}
