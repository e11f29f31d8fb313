package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

func TestPermitsAreKnownSinceTheyWereSeen(t *testing.T) {
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	permits, policy := newKnownPermits(), newPolicy("db")
	look := func(n int, gone map[types.UID]time.Time, want map[types.UID]eviction.KnownFor) {
		t.Helper()
		if diff := cmp.Diff(want, permits.known(policy, gone, at(n))); diff != "" {
			t.Errorf("known after %d s (-want +got):\n%s", n, diff)
		}
	}
	entry := func(uid types.UID, since time.Time) v1alpha1.Leaving {
		return v1alpha1.Leaving{MemberRef: v1alpha1.MemberRef{PodUID: uid}, StartTime: metav1.NewTime(since)}
	}
	policy.Status.Leaving = []v1alpha1.Leaving{entry("a", at(-3600)), entry("b", at(0))}
	look(0, nil, map[types.UID]eviction.KnownFor{"a": {}, "b": {}})
	look(5, map[types.UID]time.Time{"a": at(5)}, map[types.UID]eviction.KnownFor{"a": {Permit: 5 * time.Second}, "b": {Permit: 5 * time.Second}})
	policy.Status.Leaving[1] = entry("b", at(6)) // another permit for the same pod
	policy.Status.Leaving[1].GoneTime = new(metav1.NewTime(at(6)))
	look(7, nil, map[types.UID]eviction.KnownFor{"a": {Permit: 7 * time.Second, Gone: 2 * time.Second}, "b": {}})
	look(9, nil, map[types.UID]eviction.KnownFor{"a": {Permit: 9 * time.Second, Gone: 4 * time.Second}, "b": {Permit: 2 * time.Second, Gone: 2 * time.Second}})
	policy.Status.Leaving = policy.Status.Leaving[:1]
	look(10, nil, map[types.UID]eviction.KnownFor{"a": {Permit: 10 * time.Second, Gone: 5 * time.Second}})
	permits.forget(client.ObjectKeyFromObject(policy))
	look(11, nil, map[types.UID]eviction.KnownFor{"a": {}})
}
