package governed

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	lifecycle "k8s.io/api/lifecycle/v1alpha1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// firesNothingWhenThePolicyIsDeleted: three evictions were refused, and their callers have gone. What admission asked for in their
// names must not be carried out when the policy goes that held it back: nothing would judge it.
func (h *house) firesNothingWhenThePolicyIsDeleted(t *testing.T) {
	t.Helper()
	namespace, system := h.lab.Namespace(t), newSystem(t)
	h.members(t, namespace, 3)
	policy := h.policy(t, namespace, "db", system.spec())
	h.waitGoverned(t, namespace, "db", 3)
	before := h.uids(t, namespace)
	for pod := range before {
		err := h.lab.Client().PolicyV1().Evictions(namespace).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod}})
		if !apierrors.IsTooManyRequests(err) {
			t.Fatalf("the eviction of %s was answered with %v", pod, err)
		}
	}
	evictions := h.lab.Lifecycle(t).Evictions(namespace)
	testlab.WaitFor(t, evictions, "an eviction of each pod to wait", func(all []*lifecycle.Eviction) bool {
		return len(all) == 3 && !slices.ContainsFunc(all, func(e *lifecycle.Eviction) bool { return len(e.Status.TargetResponders) == 0 })
	})
	// A policy that is being deleted begins nothing, and then nothing would have to be taken back.
	eventually(t, "a member to be prepared", func() bool { return len(system.said()) > 0 })
	must(t, h.client.Delete(t.Context(), policy))
	testlab.WaitFor(t, h.lab.Pods(namespace), "the pods to be released", func(all []*corev1.Pod) bool {
		return !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Labels[v1alpha1.PolicyLabel] != "" })
	})
	testlab.WaitFor(t, evictions, "the evictions to end", func(all []*lifecycle.Eviction) bool {
		return !slices.ContainsFunc(all, func(e *lifecycle.Eviction) bool {
			return !meta.IsStatusConditionTrue(e.Status.Conditions, string(lifecycle.EvictionConditionFailed)) &&
				!meta.IsStatusConditionTrue(e.Status.Conditions, string(lifecycle.EvictionConditionTargetEvicted))
		})
	})
	if diff := cmp.Diff(before, h.uids(t, namespace)); diff != "" {
		t.Errorf("pods were evicted: %s", diff)
	}
	if calls := system.said(); !slices.ContainsFunc(calls, func(call string) bool { return call[:7] == "include" }) {
		t.Errorf("what was prepared was not taken back: %v", calls)
	}
}

// guardsWhileAPolicyIsReplaced: deleting a policy and creating it anew lets no member slip through in between.
func (h *house) guardsWhileAPolicyIsReplaced(t *testing.T) {
	t.Helper()
	namespace, system := h.lab.Namespace(t), newSystem(t)
	h.members(t, namespace, 3)
	policy := h.policy(t, namespace, "db", system.spec())
	h.waitGoverned(t, namespace, "db", 3)
	asked := h.askAll(t, namespace, "db-0", "db-1", "db-2")
	for range 3 {
		must(t, h.client.Delete(t.Context(), policy))
		h.waitGone(t, namespace, "db")
		policy.ResourceVersion, policy.UID, policy.Finalizers = "", "", nil
		must(t, h.client.Create(t.Context(), policy))
		h.waitGoverned(t, namespace, "db", 3)
	}
	if refused, _ := asked(); refused == 0 {
		t.Error("no eviction was refused meanwhile")
	}
}

// kubectl asks by name, every few seconds. Were the pod evicted for it in between, its next try would hit the successor, and
// move the member a second time.
func (h *house) movesAMemberOnce(t *testing.T) {
	t.Helper()
	namespace, system := h.lab.Namespace(t), newSystem(t)
	node, pod := h.members(t, namespace, 3)
	h.policy(t, namespace, "db", system.spec())
	h.waitGoverned(t, namespace, "db", 3)
	before := h.uids(t, namespace)
	watch, err := h.lab.Client().CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	seen := make(chan map[types.UID]bool, 1)
	go func() {
		uids := map[types.UID]bool{}
		for e := range watch.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok && p.Name == pod {
				uids[p.UID] = true
			}
		}
		seen <- uids
	}()
	drain := h.drain(t, node)
	h.waitPolicy(t, namespace, "db", "the member to be prepared", prepared(1, v1alpha1.PreparationBegun))
	system.setSafe(true)
	drain.succeed(t)
	testlab.WaitFor(t, h.lab.Pods(namespace), "the member to come back elsewhere", func(all []*corev1.Pod) bool {
		return slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Name == pod && p.UID != before[pod] && testlab.PodReady(p) })
	})
	h.waitPolicy(t, namespace, "db", "everything to be settled", settled)
	watch.Stop()
	if uids := <-seen; len(uids) > 2 {
		t.Errorf("%d pods had the name of the one that was drained, want 2", len(uids))
	}
}

// Nothing runs in a pod that has no node, so it may go whatever its system says. That it goes is written down, until it was seen gone.
func (h *house) letsAPodGoThatHasNoNode(t *testing.T) {
	t.Helper()
	namespace, system := h.lab.Namespace(t), newSystem(t)
	h.members(t, namespace, 3)
	h.policy(t, namespace, "db", system.spec())
	h.waitGoverned(t, namespace, "db", 3)
	h.lab.Pod(t, namespace, "lost", func(p *corev1.Pod) {
		p.Labels = testlab.Labels("db")
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "nowhere"}
	})
	h.waitLabelled(t, namespace, "db", 4)
	evict := func(pod string) error {
		return h.lab.Client().PolicyV1().Evictions(namespace).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod}})
	}
	must(t, evict("lost"))
	if err := evict("db-0"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the eviction of a member was answered with %v", err)
	}
	h.waitPolicy(t, namespace, "db", "the permit to end", settled)
}

func (h *house) waitGone(t *testing.T, namespace, name string) {
	t.Helper()
	source := await.Source[*v1alpha1.EvictionPolicy]{Client: h.policies, Resource: "evictionpolicies", Namespace: namespace}
	testlab.WaitFor(t, source, "the policy to be gone", func(all []*v1alpha1.EvictionPolicy) bool {
		return !slices.ContainsFunc(all, func(p *v1alpha1.EvictionPolicy) bool { return p.Name == name })
	})
}

func (h *house) uids(t *testing.T, namespace string) map[string]types.UID {
	t.Helper()
	pods, err := h.lab.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	uids := map[string]types.UID{}
	for i := range pods.Items {
		uids[pods.Items[i].Name] = pods.Items[i].UID
	}
	return uids
}
