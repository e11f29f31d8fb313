package replacement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
)

// A permit stands as long as something may still be done for its request, whatever else keeps the object.
func TestPrune(t *testing.T) {
	const foreign = "example.com/held"
	for name, c := range map[string]struct {
		change  func(*v1alpha1.ReplacementRequest)
		deleted bool
		want    []string
	}{
		"it is under way":                     {func(*v1alpha1.ReplacementRequest) {}, false, []string{"q"}},
		"it is not held yet":                  {func(q *v1alpha1.ReplacementRequest) { q.Finalizers = nil }, false, []string{"q"}},
		"it is deleted, and under way":        {func(q *v1alpha1.ReplacementRequest) { q.Finalizers = append(q.Finalizers, foreign) }, true, []string{"q"}},
		"it is deleted, and another keeps it": {func(q *v1alpha1.ReplacementRequest) { q.Finalizers = []string{foreign} }, true, nil},
		"it is over, and another keeps it": {func(q *v1alpha1.ReplacementRequest) {
			q.Finalizers, q.Status.Step = []string{foreign}, v1alpha1.ReplacementComplete
		}, false, nil},
		"it is gone":           {func(q *v1alpha1.ReplacementRequest) { q.Finalizers = nil }, true, nil},
		"another has its name": {func(q *v1alpha1.ReplacementRequest) { q.UID = "q2" }, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(m *member) { c.change(m.request) })
			if c.deleted {
				if err := m.store.Delete(t.Context(), m.request); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := m.r.prune(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m.policy)}); err != nil {
				t.Fatal(err)
			}
			policy := &v1alpha1.EvictionPolicy{}
			if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.policy), policy); err != nil {
				t.Fatal(err)
			}
			var permits []string
			for i := range policy.Status.Replacing {
				permits = append(permits, policy.Status.Replacing[i].Request)
			}
			if diff := cmp.Diff(c.want, permits); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What ends a request, and that alone, has the permits of its policy looked at.
func TestEnds(t *testing.T) {
	deleted := func(q *v1alpha1.ReplacementRequest) { q.DeletionTimestamp = &metav1.Time{Time: noon} }
	for name, c := range map[string]struct {
		change func(*v1alpha1.ReplacementRequest)
		want   bool
	}{
		"nothing":                          {func(*v1alpha1.ReplacementRequest) {}, false},
		"it is deleted":                    {deleted, false},
		"… and let go":                     {func(q *v1alpha1.ReplacementRequest) { deleted(q); q.Finalizers = []string{"example.com/held"} }, true},
		"it is complete":                   {func(q *v1alpha1.ReplacementRequest) { q.Status.Step = v1alpha1.ReplacementComplete }, false},
		"… and let go, and not deleted":    {func(q *v1alpha1.ReplacementRequest) { q.Finalizers, q.Status.Step = nil, v1alpha1.ReplacementComplete }, true},
		"its finalizer is off for a while": {func(q *v1alpha1.ReplacementRequest) { q.Finalizers = nil }, false},
	} {
		before := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{UID: "a", Finalizers: []string{v1alpha1.ReplacementFinalizer, "example.com/held"}}}
		after := before.DeepCopy()
		c.change(after)
		if got := ends().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if q := (&v1alpha1.ReplacementRequest{}); !ends().Delete(event.DeleteEvent{Object: q}) || ends().Create(event.CreateEvent{Object: q}) {
		t.Error("a deletion does not wake it, or a creation does")
	}
}
