package memberset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.sh/usher/api/v1alpha1"
)

// A slim set says of each member the same as the whole one, whatever its annotations name beside.
func TestSlim(t *testing.T) {
	const crash, empty = v1alpha1.CrashLoopPrefix, v1alpha1.EmptyConfigurationAnnotation
	var many []string
	for n := range 20000 {
		many = append(many, fmt.Sprint("other-", n))
	}
	for name, c := range map[string]struct {
		annotations map[string]string
		want        map[string]string
	}{
		"none":                       {nil, nil},
		"no stop":                    {map[string]string{"example.com/a": "db-1"}, nil},
		"one member":                 {map[string]string{crash + "a": "db-1"}, map[string]string{crash + "a": "db-1"}},
		"with blanks":                {map[string]string{crash + "a": " db-2 , db-1"}, map[string]string{crash + "a": "db-1,db-2"}},
		"all":                        {map[string]string{empty: "*"}, map[string]string{empty: "db-1,db-2"}},
		"all, and one by an earlier": {map[string]string{crash + "a": "db-2", empty: "*"}, map[string]string{crash + "a": "db-2", empty: "db-1"}},
		"one, and all by an earlier": {map[string]string{crash + "a": "*", empty: "db-2"}, map[string]string{crash + "a": "db-1,db-2"}},
		"others alone":               {map[string]string{crash + "a": "db-3"}, nil},
		"many others":                {map[string]string{crash + "a": strings.Join(many, ",") + ",db-2"}, map[string]string{crash + "a": "db-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "db", UID: "set", ResourceVersion: "11", Generation: 3, Annotations: c.annotations, Labels: map[string]string{"large": "x"},
				Finalizers: []string{"example.com/large"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "large"}},
			}}
			set.Spec.Groups = []v1alpha1.MemberGroup{{Name: "server", Template: runtime.RawExtension{Raw: []byte(`{"large":"x"}`)}}}
			set.Status.ClusterFile, set.Status.MemberCount, set.Status.Maintenance = "large", 2, &v1alpha1.ZoneMaintenance{Zone: "z1"}
			member := v1alpha1.SetMember{ID: "db-1", Group: "server", Node: "n1", Shape: v1alpha1.MemberShape{AddressFrom: v1alpha1.AddressFromService, Claims: []string{"data"}}}
			other := *member.DeepCopy()
			other.ID = "db-2"
			want := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "set", ResourceVersion: "11", Generation: 3, Annotations: c.want}}
			want.Status.MemberCount, want.Status.Maintenance, want.Status.Members = 2, &v1alpha1.ZoneMaintenance{Zone: "z1"}, []v1alpha1.SetMember{*member.DeepCopy(), *other.DeepCopy()}
			member.Shape.NodeSelector = map[string]string{"large": "x"}
			set.Status.Members = []v1alpha1.SetMember{member, other}
			whole := set.DeepCopy()
			slim := Slim(set)
			if diff := cmp.Diff(want, slim); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(whole, set); diff != "" {
				t.Errorf("the set itself is changed: %s", diff)
			}
			before, after := StopsOf(set), StopsOf(slim)
			for _, id := range []string{"db-1", "db-2"} {
				if before.Of(id) != after.Of(id) {
					t.Errorf("%s is stopped by %q, and by %q of the slim set", id, before.Of(id), after.Of(id))
				}
			}
		})
	}
}
