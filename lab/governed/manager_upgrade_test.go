package governed

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	lifecycle "k8s.io/api/lifecycle/v1alpha1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/testlab"
)

// isUpgradedDuringADrain: every replica is replaced while a kubectl drain is held, one after the other, as a Deployment does it. In
// between no eviction is let through, and what was begun before goes on after.
func (h *house) isUpgradedDuringADrain(t *testing.T) {
	namespace, system := h.lab.Namespace(t), newSystem(t)
	node, pod := h.members(t, namespace, 3)
	h.policy(t, namespace, "db", system.spec())
	h.waitGoverned(t, namespace, "db", 3)

	drain := h.drain(t, node)
	h.waitPolicy(t, namespace, "db", "the member to be prepared", prepared(1, v1alpha1.PreparationBegun))
	h.waitEviction(t, namespace, "the eviction to name the blocker", func(e *lifecycle.Eviction) bool {
		return says(e, "the database is not safe without "+pod)
	})
	system.waitAsked(t, "exclude/"+pod)
	uid, lease := h.uid(t, namespace, pod), h.lease(t)
	asked := h.askAll(t, namespace, "db-0", "db-1", "db-2")
	for replica := range 2 {
		h.managers.Stop(t, replica)
		if log := h.managers.Log(t, replica); strings.Contains(log, "panic") {
			t.Errorf("the replica that was asked to end has logged:\n%s", log)
		}
		h.managers.Start(t, replica)
		h.managers.WaitReady(t, replica)
	}
	refused, unanswered := asked()
	t.Logf("while the replicas were replaced: %d evictions refused by their verdict, %d because no replica answered", refused, unanswered)
	if refused == 0 {
		t.Error("no eviction was refused while the replicas were replaced")
	}
	if now := h.lease(t); now == lease {
		t.Errorf("%s still leads although every replica was replaced", now)
	}
	if now := h.uid(t, namespace, pod); now != uid {
		t.Fatal("the pod has gone although the database is not safe")
	}
	if policy := h.waitPolicy(t, namespace, "db", "the policy", func(*v1alpha1.EvictionPolicy) bool { return true }); len(policy.Status.Leaving) > 0 {
		t.Errorf("let through: %+v", policy.Status.Leaving)
	}

	system.setSafe(true)
	drain.succeed(t)
	testlab.WaitFor(t, h.lab.Pods(namespace), "the member to come back elsewhere", func(all []*corev1.Pod) bool {
		return slices.ContainsFunc(all, func(p *corev1.Pod) bool {
			return p.Name == pod && p.UID != uid && p.Spec.NodeName != node && testlab.PodReady(p)
		})
	})
	h.waitPolicy(t, namespace, "db", "everything to be settled", settled)
	excluded := slices.DeleteFunc(system.said(), func(call string) bool { return !strings.HasPrefix(call, "exclude/") })
	if len(excluded) != 1 || excluded[0] != "exclude/"+pod {
		t.Errorf("the system was asked to prepare %v, want %s once", excluded, pod)
	}
}

// askAll asks for evictions of pods, again and again, until the returned function is called, which returns how they were
// refused. They are dry runs: they are decided as others are, and leave no request behind.
func (h *house) askAll(t *testing.T, namespace string, pods ...string) (stop func() (refused, unanswered int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	var refused, unanswered int
	ask := func(pod string) {
		err := h.lab.Client().PolicyV1().Evictions(namespace).Evict(ctx, dryRun(namespace, pod))
		switch {
		case apierrors.IsTooManyRequests(err):
			refused++
		case apierrors.IsInternalError(err):
			unanswered++
		case ctx.Err() == nil:
			t.Errorf("the eviction of %s was answered with %v, want a refusal", pod, err)
		}
	}
	asking.Go(func() {
		_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
			for _, pod := range pods {
				ask(pod)
			}
			return false, nil
		})
	})
	return func() (int, int) {
		cancel()
		asking.Wait()
		return refused, unanswered
	}
}

func dryRun(namespace, pod string) *policyv1.Eviction {
	return &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: pod},
		DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
	}
}
