package all_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		if found, ok := all.Kind(declaring(k.Name)); !ok || found.Name != k.Name {
			t.Errorf("kind %s is not found by the field of its name", k.Name)
		}
	}
	slices.Sort(fields)
	if !slices.Equal(fields, kinds) {
		t.Errorf("kinds %v, fields %v", kinds, fields)
	}
	for what, spec := range map[string]v1alpha1.System{"none": {}, "two": {Etcd: &v1alpha1.Etcd{}, HTTP: &v1alpha1.HTTP{}}} {
		if found, ok := all.Kind(&spec); ok {
			t.Errorf("of a spec that declares %s the kind is %s", what, found.Name)
		}
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
			kind, ok := all.Kind(declaring(r.System))
			if !ok {
				t.Fatalf("no kind %s", r.System)
			}
			spec := v1alpha1.EvictionPolicySpec{
				System: *declaring(r.System),
				Members: []v1alpha1.MemberSelector{{
					Role: r.Name, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
				}},
			}
			_, problems := eviction.Compile(&spec, roles, kind.Declaration(&spec.System))
			for _, p := range problems {
				t.Errorf("%s: %s", p.Path, p.Message)
			}
		})
	}
}

// declaring is a spec whose field of that name is set.
func declaring(kind string) *v1alpha1.System {
	spec := reflect.New(reflect.TypeFor[v1alpha1.System]())
	for _, f := range reflect.VisibleFields(spec.Type().Elem()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == kind {
			spec.Elem().FieldByIndex(f.Index).Set(reflect.New(f.Type.Elem()))
		}
	}
	return spec.Interface().(*v1alpha1.System)
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
	emptied := []string{"arangodb-dbserver", "arangodb-single", "foundationdb-log", "foundationdb-storage", "nova-compute"} // one of them never leaves, the others are drained
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
	kind, _ := all.Kind(declaring(role.System))
	spec := v1alpha1.EvictionPolicySpec{
		System: *declaring(role.System),
		Members: []v1alpha1.MemberSelector{{
			Role: role.Name, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		}},
	}
	policy, problems := eviction.Compile(&spec, []v1alpha1.Role{*role}, kind.Declaration(&spec.System))
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

func TestReferencesOfEachKind(t *testing.T) {
	key := func(name string) *v1alpha1.SecretKey { return &v1alpha1.SecretKey{Name: name, Key: "k"} }
	access := v1alpha1.Access{CA: key("ca"), ClientCertificate: &v1alpha1.SecretName{Name: "pair"}}
	tests := map[string]struct {
		spec v1alpha1.System
		want []v1alpha1.SecretKey
	}{
		"arangodb": {v1alpha1.System{ArangoDB: &v1alpha1.ArangoDB{Access: access, JWT: key("jwt")}}, []v1alpha1.SecretKey{*key("jwt")}},
		"etcd": {
			v1alpha1.System{Etcd: &v1alpha1.Etcd{Access: access, Auth: &v1alpha1.SecretName{Name: "root"}}},
			[]v1alpha1.SecretKey{{Name: "root", Key: "username"}, {Name: "root", Key: "password"}},
		},
		"http": {
			v1alpha1.System{HTTP: &v1alpha1.HTTP{Access: access, Headers: []v1alpha1.Header{{Name: "A", Value: "b"}, {Name: "B", Secret: key("b")}}}},
			[]v1alpha1.SecretKey{*key("b")},
		},
	}
	for name, test := range tests {
		kind, ok := all.Kind(&test.spec)
		if !ok || kind.Name != name {
			t.Fatalf("%s: found %q", name, kind.Name)
		}
		refers := kind.ReferencesOf(&test.spec)
		if diff := cmp.Diff(&access, refers.Access); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(test.want, refers.Secrets); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
