package memberset

import (
	"fmt"
	"slices"
	"testing"

	"usher.sh/usher/api/v1alpha1"
)

// Where parameters alone have changed, pods are made anew and no member is replaced, whatever the strategy says but OnDelete.
func TestParameters(t *testing.T) {
	const one = "evictPod kv-member-1"
	for name, test := range map[string]struct {
		change func(w *world)
		want   []string
	}{
		"not changed":                   {func(w *world) { w.group().Parameters = []string{"knob_a = 1"} }, nil},
		"Recreate":                      {func(*world) {}, []string{one}},
		"none any more":                 {func(w *world) { w.group().Parameters = nil }, []string{one}},
		"Replace":                       {func(w *world) { w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateReplace }, []string{one}},
		"the group says Replace":        {func(w *world) { w.group().UpdateStrategy.Type = v1alpha1.UpdateReplace }, []string{one}},
		"a role that is replaced":       {func(w *world) { w.in.Kind.Replaced = []string{w.group().Role} }, []string{one}},
		"OnDelete":                      {func(w *world) { w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateOnDelete }, nil},
		"the template as well, Replace": {func(w *world) { w.image("fdb:2"); w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateReplace }, []string{"mark kv-member-1", "mark kv-member-2"}},
		"OnDelete, and its container is to crash": {func(w *world) {
			w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateOnDelete
			w.in.Set.Annotations = map[string]string{v1alpha1.CrashLoopPrefix + "etcd": "kv-member-2"}
		}, []string{"evictPod kv-member-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(configured, 2, t.Fatalf)
			w.group().Parameters = []string{"knob_a = 1"}
			if !w.settle() {
				t.Fatalf("it is not complete: %+v", w.in.Set.Status)
			}
			for i, id := range w.ids() {
				w.podNamed(id).Zone = fmt.Sprintf("z%d", i)
			}
			w.group().Parameters = []string{"knob_a = 2"}
			test.change(w)
			wants(t, w, test.want...)
		})
	}
}

// Members keep their ids through a change of their parameters, and are as their group says then.
func TestParametersReachAllMembers(t *testing.T) {
	w := formed(t, configured, 3)
	w.in.Set.Spec.UpdateStrategy.Type = v1alpha1.UpdateReplace
	before := w.ids()
	w.group().Parameters = []string{"knob_a = 1"}
	if !w.settle() || !slices.Equal(w.ids(), before) || w.in.Set.Status.Groups[0].UpdatedCount != 3 {
		t.Errorf("members %v, before %v: %+v", w.ids(), before, w.in.Set.Status.Groups)
	}
}

// Parameters are refused of a system that has no configuration for them.
func TestParametersOfAnotherSystem(t *testing.T) {
	w := formed(t, plain, 1)
	w.group().Parameters = []string{"knob_a = 1"}
	r := Decide(w.in)
	want := "group member: parameters: no configuration says how processes of kubernetes start; give them in the template"
	if len(r.Status.Blockers) != 1 || r.Status.Blockers[0].Message != want || len(r.Actions) > 0 {
		t.Errorf("it does %v, and says %+v", kinds(r), r.Status.Blockers)
	}
}
