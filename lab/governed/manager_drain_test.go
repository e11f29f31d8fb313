package governed

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	lifecycle "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/testlab"
)

// One lab for all: webhook configurations are the cluster's, and so are the managers behind them.
func TestManager(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 2)
	t.Run("together", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"lets one go after the other":       h.letsOneGoAfterTheOther,
			"undoes what is withdrawn":          h.undoesWhatIsWithdrawn,
			"undoes when the policy is deleted": h.undoesWhenThePolicyIsDeleted,
			"fires nothing when a policy goes":  h.firesNothingWhenThePolicyIsDeleted,
			"guards while a policy is replaced": h.guardsWhileAPolicyIsReplaced,
			"moves a member once":               h.movesAMemberOnce,
			"lets a pod go that has no node":    h.letsAPodGoThatHasNoNode,
			"reads a changed Secret":            h.readsAChangedSecret,
			"says what is wrong":                h.saysWhatIsWrong,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	t.Run("hands over", h.handsOver)
	t.Run("is upgraded during a drain", h.isUpgradedDuringADrain)
	t.Run("holds a drain", h.holdsADrain)
	t.Run("counts its writes", h.countsItsWrites)
	t.Run("says why a policy is invalid", h.saysWhyAPolicyIsInvalid) // the last: admission is off afterwards
}

func prepared(n int, state v1alpha1.PreparationState) func(*v1alpha1.EvictionPolicy) bool {
	return func(p *v1alpha1.EvictionPolicy) bool {
		return len(p.Status.Preparations) == n && !slices.ContainsFunc(p.Status.Preparations, func(s v1alpha1.PreparationStatus) bool { return s.State != state })
	}
}

func settled(p *v1alpha1.EvictionPolicy) bool {
	return len(p.Status.Preparations) == 0 && len(p.Status.Leaving) == 0
}

// A plain kubectl drain is held until the system says yes. The member is prepared once, and its exclusion is taken back
// when it has come back elsewhere.
func (h *house) holdsADrain(t *testing.T) {
	t.Helper()
	namespace, system := h.lab.Namespace(t), newSystem(t)
	node, pod := h.members(t, namespace, 3)
	h.policy(t, namespace, "db", system.spec())
	h.waitGoverned(t, namespace, "db", 3)

	drain := h.drain(t, node)
	h.waitPolicy(t, namespace, "db", "the member to be prepared", prepared(1, v1alpha1.PreparationBegun))
	h.waitEviction(t, namespace, "the eviction to name the blocker", func(e *lifecycle.Eviction) bool {
		return says(e, "the database is not safe without "+pod)
	})
	if uid := h.uid(t, namespace, pod); uid == "" {
		t.Fatal("the pod has gone although the database is not safe")
	}
	h.describes(t, node, "GovernedPodStays", "pod "+namespace+"/"+pod+" is wanted gone and stays")
	system.waitAsked(t, "exclude/"+pod)
	// The manager dies and comes back: what was begun is not begun again. Meanwhile no drain runs, since kubectl gives a pod
	// up as soon as no webhook answers.
	drain.abort(t)
	h.managers.Kill(t, 0)
	h.managers.Kill(t, 1)
	h.managers.Start(t, 0)
	h.managers.WaitReady(t, 0)
	before := h.uid(t, namespace, pod)
	drain = h.drain(t, node)
	system.setSafe(true)
	drain.succeed(t)
	h.describes(t, node, "GovernedPodLeaves", "pod "+namespace+"/"+pod)
	testlab.WaitFor(t, h.lab.Pods(namespace), "the member to come back elsewhere", func(all []*corev1.Pod) bool {
		return slices.ContainsFunc(all, func(p *corev1.Pod) bool {
			return p.Name == pod && p.UID != before && p.Spec.NodeName != node && testlab.PodReady(p)
		})
	})
	h.waitPolicy(t, namespace, "db", "everything to be settled", settled)
	want := []string{"exclude/" + pod, "include/" + pod}
	if diff := cmp.Diff(want, slices.Compact(system.said())); diff != "" {
		t.Errorf("what the system was asked for: %s", diff)
	}
	if calls := system.said(); calls[0] != want[0] || slices.Index(calls, want[1]) != 1 {
		t.Errorf("the exclusion was asked for more than once: %v", calls)
	}
}

// Two drains at once: one member after the other, never both.
func (h *house) letsOneGoAfterTheOther(t *testing.T) {
	t.Helper()
	namespace, system := h.lab.Namespace(t), newSystem(t)
	system.setSafe(true)
	pods := h.statefulSet(t, namespace, 3)
	h.policy(t, namespace, "db", system.spec())
	h.waitGoverned(t, namespace, "db", 3)

	watch, err := h.lab.Client().CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	away, most := map[string]bool{}, make(chan int, 1)
	for _, pod := range pods {
		away[pod.Name] = false
	}
	go func() { most <- mostAway(watch.ResultChan(), away) }()
	first, second := h.drain(t, pods[0].Spec.NodeName), h.drain(t, pods[1].Spec.NodeName)
	first.succeed(t)
	second.succeed(t)
	h.waitPolicy(t, namespace, "db", "everything to be settled", settled)
	watch.Stop()
	if n := <-most; n != 1 {
		t.Errorf("%d members were on their way at the same time, want 1", n)
	}
}

// Who gives up the drain and withdraws leaves nothing: what was prepared is undone, and the pod stays.
func (h *house) undoesWhatIsWithdrawn(t *testing.T) {
	t.Helper()
	namespace, system := h.lab.Namespace(t), newSystem(t)
	_, pod := h.members(t, namespace, 3)
	h.policy(t, namespace, "db", system.spec())
	h.waitGoverned(t, namespace, "db", 3)
	uid := h.uid(t, namespace, pod)

	api := h.lab.Lifecycle(t)
	request := &lifecycle.EvictionRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "by-hand"},
		Spec: lifecycle.EvictionRequestSpec{
			Target:    lifecycle.EvictionRequestTarget{Pod: &lifecycle.EvictionRequestPodReference{Name: pod, UID: uid}},
			Requester: "test.example.com/me", Intent: lifecycle.EvictionRequestIntentEviction,
		},
	}
	must(t, api.Create(t.Context(), request))
	h.waitPolicy(t, namespace, "db", "the member to be prepared", prepared(1, v1alpha1.PreparationBegun))
	must(t, api.Patch(t.Context(), request, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"intent":"Withdrawn"}}`))))
	h.waitPolicy(t, namespace, "db", "the preparation to be undone", settled)
	if diff := cmp.Diff([]string{"exclude/" + pod, "include/" + pod}, system.said()); diff != "" {
		t.Errorf("what the system was asked for: %s", diff)
	}
	if now := h.uid(t, namespace, pod); now != uid {
		t.Errorf("the pod is another one: %s, was %s", now, uid)
	}
}

// Deleting a policy takes back what was prepared, and its pods are free.
func (h *house) undoesWhenThePolicyIsDeleted(t *testing.T) {
	t.Helper()
	namespace, system := h.lab.Namespace(t), newSystem(t)
	node, pod := h.members(t, namespace, 3)
	policy := h.policy(t, namespace, "db", system.spec())
	h.waitGoverned(t, namespace, "db", 3)
	drain := h.drain(t, node)
	h.waitPolicy(t, namespace, "db", "the member to be prepared", prepared(1, v1alpha1.PreparationBegun))
	must(t, h.client.Delete(t.Context(), policy))
	drain.succeed(t)
	if calls := system.said(); !slices.Contains(calls, "include/"+pod) {
		t.Errorf("the exclusion was not taken back: %v", calls)
	}
	testlab.WaitFor(t, h.lab.Pods(namespace), "the labels to be gone", func(all []*corev1.Pod) bool {
		return !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Labels[v1alpha1.PolicyLabel] != "" })
	})
}

// describes waits until kubectl shows an event on a node. Events are written when everything else is done.
func (h *house) describes(t *testing.T, node, reason, says string) {
	t.Helper()
	eventually(t, "event "+reason+" on node "+node, func() bool {
		for line := range strings.Lines(h.kubectl(t, "describe", "node", node).succeed(t)) {
			if strings.Contains(line, reason) && strings.Contains(line, says) {
				return true
			}
		}
		return false
	})
}

func (h *house) uid(t *testing.T, namespace, pod string) types.UID {
	t.Helper()
	found, err := h.lab.Client().CoreV1().Pods(namespace).Get(t.Context(), pod, metav1.GetOptions{})
	must(t, err)
	return found.UID
}
