package memberset

import (
	"slices"
	"testing"

	"usher.sh/usher/api/v1alpha1"
)

// A system that no member could leave is not made, neither at first nor by shrinking.
func TestReplicas(t *testing.T) {
	for name, test := range map[string]struct {
		kind                   Kind
		before, replicas, want int32
		unsafe                 bool
	}{
		"none at first":          {kind: listing, replicas: 0, want: 0, unsafe: true},
		"two at first":           {kind: listing, replicas: 2, want: 0, unsafe: true},
		"ten at first":           {kind: listing, replicas: 10, want: 0, unsafe: true},
		"one at first":           {kind: listing, replicas: 1, want: 1},
		"nine at first":          {kind: listing, replicas: 9, want: 9},
		"from one to three":      {kind: listing, before: 1, replicas: 3, want: 3},
		"from one to two":        {kind: listing, before: 1, replicas: 2, want: 1, unsafe: true},
		"from five to three":     {kind: listing, before: 5, replicas: 3, want: 3},
		"from three to two":      {kind: listing, before: 3, replicas: 2, want: 3, unsafe: true},
		"from three to one":      {kind: listing, before: 3, replicas: 1, want: 3, unsafe: true},
		"from three to none":     {kind: listing, before: 3, replicas: 0, want: 3, unsafe: true},
		"from nine to ten":       {kind: listing, before: 9, replicas: 10, want: 9, unsafe: true},
		"without a list":         {kind: plain, before: 3, replicas: 0, want: 0},
		"without a list, at two": {kind: plain, replicas: 2, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(test.kind, test.replicas, t.Fatalf)
			if test.before > 0 {
				w = formed(t, test.kind, test.before)
				w.in.Set.Spec.Groups[0].Replicas = &test.replicas
			}
			r := Decide(w.in)
			if got := r.Status.Groups[0].Replicas; got != test.want || slices.Contains(reasons(&r), string(ReplicasUnsafe)) != test.unsafe || ready(&r.Status) && test.unsafe {
				t.Errorf("there are to be %d, and it waits for %v", got, reasons(&r))
			}
			marks := slices.ContainsFunc(r.Actions, func(a Action) bool { return a.Kind == Mark })
			if test.unsafe && (marks || len(r.Status.Members) != int(test.before)) {
				t.Errorf("%v, %d members", kinds(r), len(r.Status.Members))
			}
		})
	}
}

// A marked member does not go without a successor where fewer are asked for than can be.
func TestAMarkedMemberOfThreeIsReplaced(t *testing.T) {
	w := formed(t, listing, 3)
	w.in.Set.Spec.Groups[0].Replicas = new(int32(1))
	w.mark("kv-member-1")
	for range 60 {
		w.pass()
		w.permit()
		w.step(-1)
		if n := len(w.counted()); n < 3 {
			t.Fatalf("%d members have a vote", n)
		}
	}
	if ids := w.ids(); !slices.Equal(ids, []string{"kv-member-2", "kv-member-3", "kv-member-4"}) {
		t.Errorf("there are %v", ids)
	}
}

// counted are the members that do their work.
func (w *world) counted() []v1alpha1.SetMember {
	return slices.DeleteFunc(slices.Clone(w.in.Set.Status.Members), func(m v1alpha1.SetMember) bool { return !whole(&m) })
}
