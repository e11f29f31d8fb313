package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
)

// A storm of pods: all members are judged once a second at most, and the last judgement has seen the last pod.
func TestAStormIsJudgedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var judged []time.Time
		r := newRig(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, resource string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			judged = append(judged, time.Now())
			return c.SubResource(resource).Patch(ctx, o, p, options...)
		}}, newPolicy("db"))
		key := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "prod", Name: "db"}}
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		go func() {
			for next, over := queue.Get(); !over; next, over = queue.Get() {
				result, err := r.reconciler.reconcile(t.Context(), next)
				if err != nil {
					t.Error(err)
				}
				queue.Done(next)
				queue.AddAfter(next, result.RequeueAfter)
			}
		}()
		const pods, apart = 100, 30 * time.Millisecond
		for i := range pods {
			if err := r.Create(t.Context(), newMember(fmt.Sprintf("db-%d", i), "db")); err != nil {
				t.Fatal(err)
			}
			queue.Add(key)
			pass(apart)
		}
		pass(judging)
		synctest.Wait()
		var policy v1alpha1.EvictionPolicy
		if err := r.Get(t.Context(), key.NamespacedName, &policy); err != nil {
			t.Fatal(err)
		}
		if policy.Status.MemberCount != pods {
			t.Errorf("the last judgement saw %d of %d pods", policy.Status.MemberCount, pods)
		}
		if most := int(pods*apart/judging) + 2; len(judged) > most {
			t.Errorf("judged %d times in %s", len(judged), pods*apart)
		}
		for i := 1; i < len(judged); i++ {
			if d := judged[i].Sub(judged[i-1]); d < judging {
				t.Errorf("judged again after %s", d)
			}
		}
		queue.ShutDown()
	})
}

// While a member is on its way what is seen waits for what becomes of it, and is written with that, or by itself now and then.
func TestWhatIsSeenIsWrittenWithWhatIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
			p.Status.Leaving = []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{Role: "node", ID: "db-0", PodName: "db-0", PodUID: "db-0"}, StartTime: metav1.Now(), Requester: "jane"}}
		})
		var writes []string
		r := newRig(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, resource string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			body, err := p.Data(o)
			writes = append(writes, string(body))
			return errors.Join(err, c.SubResource(resource).Patch(ctx, o, p, options...))
		}}, policy, newMember("db-0", "db"))
		r.settled(t, time.Second)
		writes = nil
		for i := range 12 {
			if err := r.Create(t.Context(), newMember(fmt.Sprintf("db-%d", i+1), "db")); err != nil {
				t.Fatal(err)
			}
			r.settled(t, time.Second)
		}
		if len(writes) != 1 {
			t.Errorf("written %d times in 12 s, want once", len(writes))
		}
		writes = nil
		r.settled(t, 3*time.Minute)
		last := writes[len(writes)-1]
		if len(writes) > 2 || !strings.Contains(last, `"leaving":null`) || !strings.Contains(last, `"memberCount":13`) {
			t.Errorf("the permit ends with %q", writes)
		}
	})
}

// What is seen next is written by itself some seconds after what became of a member.
func TestWhatIsSeenWaitsAfterWhatIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes := 0
		r := newRig(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, resource string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(resource).Patch(ctx, o, p, options...)
		}}, newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
			p.Status.Leaving = []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{Role: "node", ID: "db-0", PodName: "db-0", PodUID: "db-0"}, StartTime: metav1.Now(), Requester: "jane"}}
		}), newMember("db-0", "db"))
		for range 300 {
			if r.settled(t, time.Second); len(r.stored(t).Status.Leaving) == 0 {
				break
			}
		}
		if len(r.stored(t).Status.Leaving) > 0 {
			t.Fatal("the permit does not end")
		}
		writes = 0
		if err := r.Create(t.Context(), newMember("db-1", "db")); err != nil {
			t.Fatal(err)
		}
		r.settled(t, seeing/2)
		if writes > 0 {
			t.Errorf("written %d times within %s", writes, seeing/2)
		}
		r.settled(t, seeing)
		if got := r.stored(t).Status.MemberCount; got != 2 || writes != 1 {
			t.Errorf("%d members are seen, in %d writes", got, writes)
		}
	})
}

// What is seen may be what the apiserver refuses. The permit ends all the same.
func TestRefusedStatusKeepsNoPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, resource string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			if body, err := p.Data(o); err != nil || strings.Contains(string(body), `"conditions"`) {
				return errors.Join(err, apierrors.NewInvalid(schema.GroupKind{Kind: "EvictionPolicy"}, "db", nil))
			}
			return c.SubResource(resource).Patch(ctx, o, p, options...)
		}}, newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
			p.Status.Leaving = []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{Role: "node", ID: "db-0", PodName: "db-0", PodUID: "db-0"}, StartTime: metav1.Now(), Requester: "jane"}}
		}), newMember("db-1", "db"))
		key := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "prod", Name: "db"}}
		for range 12 { // the apiserver's refusal of what is seen alone is an error
			_, _ = r.reconciler.reconcile(t.Context(), key)
			pass(5 * time.Second)
		}
		if stored := r.stored(t); len(stored.Status.Leaving) > 0 {
			t.Errorf("after a minute the permit stands: %+v", stored.Status.Leaving)
		}
	})
}
