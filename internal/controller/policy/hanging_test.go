package policy

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

// mute is a system that answers nothing until its caller's time is over.
type mute struct{}

func (mute) Observe(ctx context.Context, _ []system.Member) (*eviction.Evidence, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (mute) Prepare(ctx context.Context, _ eviction.Preparation) (eviction.Job, error) {
	<-ctx.Done()
	return eviction.Job{}, ctx.Err()
}

func (mute) Undo(ctx context.Context, _ eviction.Preparation) (eviction.Undone, error) {
	<-ctx.Done()
	return eviction.Undone{}, ctx.Err()
}

func (mute) Close() {}

// One tenant's system hangs in five undos. Another tenant's permit is crossed out at once, although a single worker does both.
func TestHangingUndosKeepNoOtherTenantWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging, other := newPolicy("db"), newPolicy("db")
		hanging.Spec.Evidence.Timeout.Duration = 30 * time.Second
		long := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
		objects := []client.Object{hanging, other, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}}}
		for n := range 5 {
			pod := newMember(fmt.Sprint("db-", n), "db")
			objects = append(objects, pod)
			hanging.Status.Preparations = append(hanging.Status.Preparations, v1alpha1.PreparationStatus{
				MemberRef: v1alpha1.MemberRef{Role: "router", ID: pod.Name, PodName: pod.Name, PodUID: pod.UID},
				Name:      "Empty", State: v1alpha1.PreparationBegun, StartTime: long, LastRequestTime: long,
			})
		}
		other.Namespace, other.UID = "other", "other-policy"
		other.Status.Leaving = []v1alpha1.Leaving{{
			MemberRef: v1alpha1.MemberRef{Role: "router", ID: "gone", PodName: "gone", PodUID: "gone"}, StartTime: long, GoneTime: &long,
		}}
		r := newRig(t, interceptor.Funcs{}, objects...)
		kind := func(*v1alpha1.System) (system.Kind, bool) {
			kind := rest.Kind()
			kind.Open = func(*v1alpha1.System, system.Access) (system.System, error) { return mute{}, nil }
			return kind, true
		}
		observer := policycache.NewObserver(policycache.ObserverConfig{Kind: kind, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		r.reconciler.Act.Observer, r.reconciler.Gatherer.Observer = observer, observer
		var answered atomic.Int32
		r.reconciler.Act.Answered = func(*v1alpha1.EvictionPolicy) { answered.Add(1) }
		began := time.Now()
		r.reconciler.permits.known(other, nil, long.Time)
		for _, policy := range []*v1alpha1.EvictionPolicy{hanging, other} {
			if _, err := r.reconciler.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(policy)}); err != nil {
				t.Fatal(err)
			}
		}
		var seen v1alpha1.EvictionPolicy
		if err := r.Get(t.Context(), client.ObjectKeyFromObject(other), &seen); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); len(seen.Status.Leaving) > 0 || took > 0 {
			t.Errorf("after %s the other's permit is crossed out: %t", took, len(seen.Status.Leaving) == 0)
		}
		<-time.After(time.Minute)
		if answered.Load() == 0 {
			t.Error("nothing was asked of the system that hangs")
		}
	})
}
