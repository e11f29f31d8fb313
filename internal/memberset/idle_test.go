package memberset

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

// A member that does its work goes once its group has enough others that do. Where one that does not is to go as well, and one may at a time, that one is first: the other
// way round each waits for the other.
func TestOneThatDoesNotDoItsWorkGoesFirst(t *testing.T) {
	excluded := func(w *world) { w.diskOf("kv-member-2").foreign = true }
	update := func(w *world) {
		w.in.Set.Spec.IDPrefix, w.in.Set.Spec.UpdateStrategy.Replace.MaxInFlight = "a", new(int32(1))
	}
	shrink := func(w *world) { w.group().Replicas = new(int32(2)) }
	for name, test := range map[string]struct {
		kind  Kind
		given []func(w *world)
		want  []string
	}{
		"an update, and all do their work":                     {emptying, []func(*world){update}, []string{"mark kv-member-1"}},
		"an update, and another client has excluded one":       {emptying, []func(*world){update, excluded}, []string{"mark kv-member-2"}},
		"an update, and what the system says is not known":     {emptying, []func(*world){update, excluded, func(w *world) { w.mute = true }}, []string{"mark kv-member-1"}},
		"an update, and a pod is not Ready":                    {plain, []func(*world){update, func(w *world) { w.podNamed("kv-member-2").Ready = false }}, []string{"mark kv-member-2"}},
		"an update, and a voter is lost":                       {listing, []func(*world){update, func(w *world) { w.podNamed("kv-member-2").Ready = false }}, []string{"mark kv-member-2"}},
		"one too many, and all do their work":                  {emptying, []func(*world){shrink}, []string{"mark kv-member-1"}},
		"one too many, and another client has excluded one":    {emptying, []func(*world){shrink, excluded}, []string{"mark kv-member-2"}},
		"an update of another template that is Replace by one": {plain, []func(*world){replaceByOne, func(w *world) { w.podNamed("kv-member-3").Ready = false }}, []string{"mark kv-member-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, test.kind, 3)
			for i := range w.in.Set.Status.Members {
				w.in.Set.Status.Members[i].Zone = "z"
			}
			for _, given := range test.given {
				given(w)
			}
			w.look()
			r := Decide(w.in)
			got := slices.DeleteFunc(kinds(r), func(k string) bool { return !strings.HasPrefix(k, "mark") })
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s\nblockers: %+v", diff, r.Status.Blockers)
			}
		})
	}
}

func replaceByOne(w *world) {
	w.image("etcd:2")
	w.in.Set.Spec.UpdateStrategy.Type, w.in.Set.Spec.UpdateStrategy.Replace.MaxInFlight = v1alpha1.UpdateReplace, new(int32(1))
}

// An update comes to its end though another client has excluded a member that it replaces.
func TestAnUpdatePastAnExclusion(t *testing.T) {
	w := formed(t, emptying, 3)
	w.in.Set.Spec.IDPrefix, w.in.Set.Spec.UpdateStrategy.Replace.MaxInFlight = "a", new(int32(1))
	w.diskOf("kv-member-2").excluded, w.diskOf("kv-member-2").foreign = true, true
	if !w.settle() || slices.ContainsFunc(w.ids(), func(id string) bool { return !strings.HasPrefix(id, "a-") }) {
		t.Errorf("in the end there are %v: %+v", w.ids(), w.in.Set.Status.Blockers)
	}
}
