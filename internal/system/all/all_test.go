package all_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system/all"
)

// Every field of spec.system that is a system has a kind of its name, and there are no others.
func TestKindsAreTheFieldsOfTheAPI(t *testing.T) {
	var fields []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[v1alpha1.System]()) {
		if f.Type.Kind() == reflect.Pointer {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, name)
		}
	}
	var kinds []string
	for _, k := range all.Kinds() {
		kinds = append(kinds, k.Name)
		if found, ok := all.Kind(k.Name); !ok || found.Name != k.Name {
			t.Errorf("kind %s is not found by its name", k.Name)
		}
	}
	slices.Sort(fields)
	if !slices.Equal(fields, kinds) {
		t.Errorf("kinds %v, fields %v", kinds, fields)
	}
	if _, ok := all.Kind("oracle"); ok {
		t.Error("there is a kind that nobody wrote")
	}
}

func TestRolesCompile(t *testing.T) {
	roles, err := all.Roles()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(roles, func(a, b v1alpha1.Role) int { return strings.Compare(a.Name, b.Name) }) || len(roles) < 9 {
		t.Errorf("roles: %v", names(roles))
	}
	for _, r := range roles {
		t.Run(r.Name, func(t *testing.T) {
			kind, ok := all.Kind(r.System)
			if !ok {
				t.Fatalf("no kind %s", r.System)
			}
			spec := v1alpha1.EvictionPolicySpec{
				System: v1alpha1.System{ArangoDB: arangoDB(r.System), Etcd: etcd(r.System)},
				Members: []v1alpha1.MemberSelector{{
					Role: r.Name, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
				}},
			}
			_, problems := eviction.Compile(&spec, roles, kind.Schema, kind.Steps)
			for _, p := range problems {
				t.Errorf("%s: %s", p.Path, p.Message)
			}
		})
	}
}

func arangoDB(kind string) *v1alpha1.ArangoDB {
	if kind != "arangodb" {
		return nil
	}
	return &v1alpha1.ArangoDB{}
}

func etcd(kind string) *v1alpha1.Etcd {
	if kind != "etcd" {
		return nil
	}
	return &v1alpha1.Etcd{}
}

func names(roles []v1alpha1.Role) []string {
	var all []string
	for _, r := range roles {
		all = append(all, r.Name)
	}
	return all
}

// A persistent member that is not emptied before it leaves must have its data on something that outlives its pod.
func TestPersistentRolesLookForEmptyDirs(t *testing.T) {
	roles, err := all.Roles()
	if err != nil {
		t.Fatal(err)
	}
	emptied := []string{"arangodb-dbserver", "arangodb-single"} // the one leaves drained, the other never
	for i := range roles {
		if roles[i].State != v1alpha1.StatePersistent || slices.Contains(emptied, roles[i].Name) {
			continue
		}
		for name, c := range map[string]struct {
			pod     *snapshot.Pod
			blocked bool
		}{
			"an emptyDir and no claim":  {&snapshot.Pod{EmptyDirs: []string{"data"}}, true},
			"an emptyDir and a claim":   {&snapshot.Pod{EmptyDirs: []string{"tmp"}, Claims: []string{"data-db-0"}}, false},
			"neither, as on a hostPath": {&snapshot.Pod{}, false},
		} {
			if got := blockedBy(t, &roles[i], c.pod, "DataOnEmptyDir"); got != c.blocked {
				t.Errorf("role %s, %s: blocked %t, want %t", roles[i].Name, name, got, c.blocked)
			}
		}
	}
}

// blockedBy reports whether the role blocks the eviction of such a pod with that reason, whatever else it says.
func blockedBy(t *testing.T, role *v1alpha1.Role, pod *snapshot.Pod, reason string) bool {
	t.Helper()
	kind, _ := all.Kind(role.System)
	spec := v1alpha1.EvictionPolicySpec{
		System: v1alpha1.System{ArangoDB: arangoDB(role.System), Etcd: etcd(role.System)},
		Members: []v1alpha1.MemberSelector{{
			Role: role.Name, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		}},
	}
	policy, problems := eviction.Compile(&spec, []v1alpha1.Role{*role}, kind.Schema, kind.Steps)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	judged := *pod
	judged.Namespace, judged.Name, judged.UID, judged.Node, judged.Labels = "db", "db-0", "uid", "n1", map[string]string{"app": "db"}
	verdict := eviction.Judge(eviction.Input{
		Pod: &judged, Policies: []eviction.Declared{{Key: snapshot.Key{Namespace: "db", Name: "db"}, Policy: policy}},
	})
	return slices.ContainsFunc(verdict.Blockers, func(b eviction.Blocker) bool { return b.Reason == reason })
}
