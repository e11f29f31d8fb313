package replacement

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/replacement"
)

// What is read of a member is not read again when its system says something new a moment later; it is where anything else may have changed.
func TestAnAnswerOfTheSystemIsNoReasonToReadAll(t *testing.T) {
	for name, c := range map[string]struct {
		rule      string
		meanwhile func(*member)
		anew      bool
	}{
		"a rule holds it up":       {"false", func(*member) {}, false},
		"its node holds it up too": {"", func(*member) {}, true},
		"it takes long":            {"false", func(m *member) { m.now = m.now.Add(2 * patience) }, true},
		"its pod is another": {"false", func(m *member) {
			m.update(m.t, m.pod, func() { m.pod.Labels["id"] = "db-1" })
		}, true},
		"the policy is another": {"false", func(m *member) {
			m.update(m.t, m.policy, func() { m.policy.Generation++ })
		}, true},
		"the request is deleted": {"false", func(m *member) {
			if err := m.store.Delete(m.t.Context(), m.request); err != nil {
				m.t.Fatal(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(m *member) {
				m.request.Status.Step, m.request.Status.Predecessor = v1alpha1.ReplacementWaiting, nil
				m.policy.Status.Replacing = nil
				if c.rule != "" {
					m.policy.Spec.Roles[0].Replace.Rules = []v1alpha1.Rule{{Name: "r", Reason: "Said", Expression: c.rule, Message: "m"}}
				}
			})
			if c.rule == "" {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"}}
				node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
				if err := m.store.Create(t.Context(), node); err != nil {
					t.Fatal(err)
				}
			}
			sets := 0
			m.r.live = interceptor.NewClient(m.store.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, under client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if _, is := o.(*appsv1.StatefulSet); is {
						sets++
					}
					return under.Get(ctx, key, o, opts...)
				},
			})
			look := func() int {
				sets = 0
				if _, err := m.r.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m.request)}); err != nil {
					t.Fatal(err)
				}
				return sets
			}
			if look() != 1 {
				t.Fatalf("the set was read %d times at the first look", sets)
			}
			c.meanwhile(m)
			if anew := look() > 0; anew != c.anew {
				found := &v1alpha1.ReplacementRequest{}
				_ = m.store.Get(t.Context(), client.ObjectKeyFromObject(m.request), found)
				t.Errorf("read anew: %t; it waits for %+v", anew, found.Status.Blockers)
			}
		})
	}
}

// What the cache shows anew of the pod, of its node, or of a place where it was, is not taken from an earlier look: its rules are asked about both, and a permit
// is written by them.
func TestWhatTheCacheShowsAnewIsReadAgain(t *testing.T) {
	status := func(m *member, object client.Object, change func()) {
		if err := m.store.Get(m.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			m.t.Fatal(err)
		}
		change()
		if err := m.store.Status().Update(m.t.Context(), object); err != nil {
			m.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		meanwhile func(*member)
		anew      bool
	}{
		"nothing": {func(*member) {}, false},
		"it is not Ready any more": {func(m *member) {
			status(m, m.pod, func() {
				m.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
			})
		}, true},
		"its image is said to be pulled": {func(m *member) {
			status(m, m.pod, func() { m.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{ImageID: "i"}} })
		}, false},
		"its node falls silent": {func(m *member) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}
			status(m, node, func() { node.Status.Conditions[0].Status = corev1.ConditionUnknown })
		}, true},
		"its node reports that it has room": {func(m *member) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}
			status(m, node, func() { node.Status.Allocatable = corev1.ResourceList{} })
		}, false},
		"a place that was gone is back": {func(m *member) { m.aliveNode(m.t, "n1") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(m *member) {
				m.request.Status.Step, m.request.Status.Predecessor, m.pod.Spec.NodeName = v1alpha1.ReplacementWaiting, nil, "n2"
				m.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			})
			m.aliveNode(t, "n2")
			m.r.known.hold(m.looked(t))
			c.meanwhile(m)
			m.now = m.now.Add(time.Second)
			l, err := m.r.resume(t.Context(), m.request)
			if err != nil || l.read.Equal(m.now) != c.anew {
				t.Errorf("read at %s, %v", l.read, err)
			}
		})
	}
}

// A claim without a volume may be bound at any moment to one that is to be kept: what is deleted by an earlier look would take that with it.
func TestNoLookAtAClaimWithoutAVolumeIsKept(t *testing.T) {
	unknown := []replacement.Blocker{{Reason: replacement.MembershipNotKnown}}
	for name, c := range map[string]struct {
		claim  replacement.Claim
		retain bool
		want   bool
	}{
		"bound":                     {replacement.Claim{Name: "data", UID: "c", Volume: "v", Known: true}, true, true},
		"none":                      {replacement.Claim{Name: "data"}, true, true},
		"unbound":                   {replacement.Claim{Name: "data", UID: "c"}, true, false},
		"unbound, and none is kept": {replacement.Claim{Name: "data", UID: "c"}, false, true},
	} {
		if got := heldBySystem(&look{in: replacement.StepInput{Retain: c.retain, Claims: []replacement.Claim{c.claim}}}, unknown); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A successor is complete by a pod that was read past the cache, which may show it Ready for longer than it is.
func TestNoLookAtASuccessorIsKept(t *testing.T) {
	unknown := []replacement.Blocker{{Reason: replacement.MembershipNotKnown}}
	for phase, want := range map[replacement.Phase]bool{replacement.Waiting: true, replacement.Removing: true, replacement.Joining: false} {
		if got := heldBySystem(&look{in: replacement.StepInput{Progress: replacement.Progress{Phase: phase}}}, unknown); got != want {
			t.Errorf("%s: %t", phase, got)
		}
	}
}
