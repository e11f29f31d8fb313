package policy

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

// settled lets the controller of policies look for so long, at the times that it asks for.
func (r *rig) settled(t *testing.T, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); ; {
		result, err := r.reconciler.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "prod", Name: "db"}})
		if err != nil {
			t.Fatal(err)
		}
		if result.RequeueAfter == 0 || time.Now().Add(result.RequeueAfter).After(end) {
			pass(max(0, time.Until(end)))
			return
		}
		pass(result.RequeueAfter)
	}
}

// stored is the policy, nil if it is gone.
func (r *rig) stored(t *testing.T) *v1alpha1.EvictionPolicy {
	t.Helper()
	var policy v1alpha1.EvictionPolicy
	err := r.Get(t.Context(), client.ObjectKey{Namespace: "prod", Name: "db"}, &policy)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return &policy
}

// TestDeletedPolicyWaitsUntilItsMembersAreMissed: deleting a policy and creating it anew does not let the next member go while the
// system still reports the last one. That is waited for as long as the role says, for a pod that does not go no longer than for a
// preparation, for a permit that was not used until it ends, and in a namespace that is being deleted not at all.
func TestDeletedPolicyWaitsUntilItsMembersAreMissed(t *testing.T) {
	terminating := func(*v1alpha1.EvictionPolicy, *corev1.Pod) {}
	gone := func(policy *v1alpha1.EvictionPolicy, _ *corev1.Pod) {
		policy.Status.Leaving[0].PodUID, policy.Status.Leaving[0].GoneTime = "gone", &metav1.Time{Time: time.Now().Add(-5 * time.Second)}
	}
	before := func(policy *v1alpha1.EvictionPolicy, _ *corev1.Pod) {
		policy.Status.Leaving[0].PodUID, policy.Status.Leaving[0].GoneTime = "gone", &metav1.Time{Time: time.Now().Add(-20 * time.Second)}
	}
	stays := func(_ *v1alpha1.EvictionPolicy, pod *corev1.Pod) { pod.DeletionTimestamp, pod.Finalizers = nil, nil }
	for name, c := range map[string]struct {
		given  func(*v1alpha1.EvictionPolicy, *corev1.Pod)
		settle *metav1.Duration
		ending bool
		hangs  bool          // the cache shows the pod as it was, which is gone
		ahead  time.Duration // the clock is set forward after the deletion
		held   bool
		holds  time.Duration // after the deletion it is still there
		over   time.Duration // and then it is gone
	}{
		"it was seen gone": {given: gone, held: true, holds: 25 * time.Second, over: 35 * time.Second},
		"it was seen gone before this process knew it":               {given: before, held: true, holds: 29 * time.Second, over: 31 * time.Second},
		"the clock is set forward":                                   {given: gone, ahead: time.Minute, held: true, holds: 29 * time.Second, over: 31 * time.Second},
		"the role says for how long":                                 {given: gone, settle: &metav1.Duration{Duration: 3 * time.Minute}, held: true, holds: 170 * time.Second, over: 190 * time.Second},
		"the role says that it need not":                             {given: gone, settle: &metav1.Duration{}, over: time.Second},
		"its pod terminates, and does not go":                        {given: terminating, held: true, holds: undoPatience - 10*time.Second, over: undoPatience + 10*time.Second},
		"it was let go, and stays":                                   {given: stays, held: true, holds: 110 * time.Second, over: 130 * time.Second},
		"it was let go, and the cache does not show that it is gone": {given: stays, hangs: true, held: true, holds: 140 * time.Second, over: 160 * time.Second},
		"its namespace is being deleted":                             {given: gone, ending: true, over: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := newMember("db-0", "db")
				pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/stays"}
				policy := newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
					p.Spec.Roles[0].Evict.Settle = c.settle
					p.Status.Leaving = []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{Role: "node", ID: "db-0", PodName: "db-0", PodUID: "db-0"}, StartTime: metav1.Now(), Requester: "jane"}}
				})
				c.given(policy, pod)
				r := newRig(t, interceptor.Funcs{}, policy, pod)
				if c.ending {
					r.endNamespace(t)
				}
				if c.hangs {
					r.hangPods(t)
					if err := r.Delete(t.Context(), pod); err != nil {
						t.Fatal(err)
					}
				}
				r.settled(t, 0)
				if held := slices.Contains(r.stored(t).Finalizers, v1alpha1.UndoFinalizer); held != c.held {
					t.Fatalf("the policy is held: %t, want %t", held, c.held)
				}
				if err := r.Delete(t.Context(), r.stored(t)); err != nil {
					t.Fatal(err)
				}
				r.reconciler.Gatherer.Now = func() time.Time { return time.Now().Add(c.ahead) }
				if r.settled(t, c.holds); c.holds > 0 {
					left := r.stored(t)
					if left == nil {
						t.Fatalf("it is gone %s after its deletion", c.holds)
					}
					ready := meta.FindStatusCondition(left.Status.Conditions, v1alpha1.ConditionReady)
					if ready == nil || ready.Reason != ReasonSettling {
						t.Errorf("the condition is %+v", ready)
					}
				}
				if r.settled(t, c.over-c.holds); r.stored(t) != nil {
					t.Errorf("it is there %s after its deletion: %+v", c.over, r.stored(t).Status)
				}
			})
		})
	}
}

// The finalizer that the writer of the first permit has put on stays while a permit stands.
func TestStandingPermitKeepsThePolicyHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
			p.Finalizers = []string{v1alpha1.UndoFinalizer}
			p.Status.Leaving = []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{Role: "node", ID: "db-0", PodName: "db-0", PodUID: "db-0"}, StartTime: metav1.Now(), Requester: "jane"}}
		})
		r := newRig(t, interceptor.Funcs{}, policy, newMember("db-0", "db"))
		for _, c := range []struct {
			after time.Duration
			held  bool
		}{{0, true}, {time.Minute, true}, {3 * time.Minute, true}, {releaseAfter, false}} { // the permit has ended by then
			if r.settled(t, c.after); slices.Contains(r.stored(t).Finalizers, v1alpha1.UndoFinalizer) != c.held {
				t.Errorf("the policy is held: %t, want %t", !c.held, c.held)
			}
		}
	})
}

// Who writes a policy's first permit puts the finalizer on before: that it is not needed yet does not take it off in between, and a
// policy that needs it every minute keeps it.
func TestPolicyIsHeldForAWhileBeforeAndAfterItsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
			p.Finalizers = []string{v1alpha1.UndoFinalizer}
		})
		r := newRig(t, interceptor.Funcs{}, policy, newMember("db-0", "db"))
		leaving := []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{Role: "node", ID: "db-0", PodName: "db-0", PodUID: "db-0"}, StartTime: metav1.Now(), Requester: "jane"}}
		for _, c := range []struct {
			after   time.Duration
			leaving []v1alpha1.Leaving
			held    bool
		}{{0, nil, true}, {releaseAfter - time.Second, nil, true}, {0, leaving, true}, {releaseAfter + time.Minute, nil, true}, {releaseAfter, nil, false}} {
			stored := r.stored(t)
			if stored.Status.Leaving = append(stored.Status.Leaving, c.leaving...); len(c.leaving) > 0 {
				stored.Status.Leaving[0].StartTime = metav1.Now()
				if err := r.Status().Update(t.Context(), stored); err != nil {
					t.Fatal(err)
				}
			}
			if r.settled(t, c.after); slices.Contains(r.stored(t).Finalizers, v1alpha1.UndoFinalizer) != c.held {
				t.Errorf("after %s more the policy is held: %t, want %t", c.after, !c.held, c.held)
			}
		}
	})
}

// A policy that is being deleted takes no new finalizer. Asking for one would fail every look at it.
func TestDeletedPolicyIsNotHeldAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		others := []string{"foregroundDeletion"}
		r := newRig(t, interceptor.Funcs{}, newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
			p.Finalizers, p.DeletionTimestamp = others, new(metav1.Now())
			p.Status.Leaving = []v1alpha1.Leaving{{MemberRef: v1alpha1.MemberRef{Role: "node", ID: "db-0", PodName: "db-0", PodUID: "db-0"}, StartTime: metav1.Now(), Requester: "jane"}}
		}), newMember("db-0", "db"))
		r.settled(t, 0)
		if diff := cmp.Diff(others, r.stored(t).Finalizers); diff != "" {
			t.Error(diff)
		}
	})
}

// endNamespace deletes the namespace, which stays while something is in it.
func (r *rig) endNamespace(t *testing.T) {
	t.Helper()
	var namespace corev1.Namespace
	if err := r.Get(t.Context(), client.ObjectKey{Name: "prod"}, &namespace); err != nil {
		t.Fatal(err)
	}
	namespace.Finalizers = []string{"example.com/kubernetes"}
	if err := r.Update(t.Context(), &namespace); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), &namespace); err != nil {
		t.Fatal(err)
	}
}
