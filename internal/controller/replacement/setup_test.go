package replacement

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"usher.sh/usher/api/v1alpha1"
)

// What the controller itself writes does not wake it; that data is given up, or the request is deleted, does.
func TestAsksAnew(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.ReplacementRequest)
		want   bool
	}{
		"its status changes": {func(q *v1alpha1.ReplacementRequest) {
			q.ResourceVersion, q.Status.Step = "2", v1alpha1.ReplacementJoining
		}, false},
		"data is given up":     {func(q *v1alpha1.ReplacementRequest) { q.Generation = 2 }, true},
		"it is deleted":        {func(q *v1alpha1.ReplacementRequest) { q.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, true},
		"its finalizer goes":   {func(q *v1alpha1.ReplacementRequest) { q.Finalizers = nil }, true},
		"another has its name": {func(q *v1alpha1.ReplacementRequest) { q.UID = "b" }, true},
	} {
		before := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{UID: "a", ResourceVersion: "1", Generation: 1, Finalizers: []string{v1alpha1.ReplacementFinalizer}}}
		after := before.DeepCopy()
		test.change(after)
		if got := asksAnew().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
