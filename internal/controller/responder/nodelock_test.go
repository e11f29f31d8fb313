package responder

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// What waits for a node's locks is looked at when one goes, or the label changes, and not at each heartbeat.
func TestNodesThatAreUnlockedWake(t *testing.T) {
	node := func(label string, locks ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"state": label}, Annotations: map[string]string{"note": "x"}}}
		for _, lock := range locks {
			n.Annotations[lock] = ""
		}
		return n
	}
	for name, c := range map[string]struct {
		before, after *corev1.Node
		want          bool
	}{
		"nothing":       {node("False", "a"), node("False", "a"), false},
		"another lock":  {node("True", "a"), node("True", "a", "b"), false},
		"one goes":      {node("True", "a", "b"), node("True", "a"), true},
		"one for one":   {node("True", "a"), node("True", "b"), true},
		"another label": {node("False", "a"), node("True", "a"), true},
	} {
		if got := unlocked().Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: wakes %t", name, got)
		}
	}
}
