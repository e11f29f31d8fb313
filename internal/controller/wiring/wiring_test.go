package wiring

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
)

// A cache refuses an index that it has.
func TestIndexesAreAddedOnce(t *testing.T) {
	node := Index{Object: &corev1.Node{}, Field: targets.Field, Values: targets.IndexPod}
	var got []string
	for _, index := range Indexes([]Controller{{Indexes: TargetPodIndexes()}, {Indexes: append(TargetPodIndexes(), node)}}) {
		switch index.Object.(type) {
		case *api.EvictionRequest:
			got = append(got, "requests")
		case *api.Eviction:
			got = append(got, "evictions")
		default:
			got = append(got, "nodes")
		}
	}
	if diff := cmp.Diff([]string{"requests", "evictions", "nodes"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPodOf(t *testing.T) {
	request := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "shop", Name: "web-0", UID: "u"}, "requester.example.com/jane")
	if keys := PodOf(t.Context(), request); len(keys) != 1 || keys[0].NamespacedName != (types.NamespacedName{Namespace: "shop", Name: "web-0"}) {
		t.Errorf("keys %v", keys)
	}
	if keys := PodOf(t.Context(), &api.EvictionRequest{}); len(keys) != 0 {
		t.Errorf("without a pod: %v", keys)
	}
}

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
		if got := Respecified().Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: wakes %t", name, got)
		}
	}
}

// After an outage, however long it was, a key is tried again within half a minute.
func TestRetries(t *testing.T) {
	limiter, key := retries(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "db"}}
	if first := limiter.When(key); first > time.Second {
		t.Errorf("the first time after %s", first)
	}
	for range 100 {
		limiter.When(key)
	}
	if last := limiter.When(key); last > 30*time.Second {
		t.Errorf("at last after %s", last)
	}
}
