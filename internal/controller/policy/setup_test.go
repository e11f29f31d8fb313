package policy

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"usher.sh/usher/api/v1alpha1"
)

// A policy that was replaced while a watch was broken has another UID, and may have the generation of the one before.
func TestPoliciesThatAreSpecifiedAnewWake(t *testing.T) {
	policy := func(uid types.UID, generation int64) *v1alpha1.EvictionPolicy {
		p := &v1alpha1.EvictionPolicy{}
		p.UID, p.Generation = uid, generation
		return p
	}
	for name, c := range map[string]struct {
		before, after *v1alpha1.EvictionPolicy
		want          bool
	}{
		"its status":          {policy("a", 1), policy("a", 1), false},
		"its spec":            {policy("a", 1), policy("a", 2), true},
		"another of the name": {policy("a", 1), policy("b", 1), true},
	} {
		if got := respecified().Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: wakes %t", name, got)
		}
	}
}
