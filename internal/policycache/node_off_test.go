package policycache

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
)

// Only a fence proves that a node is off, and only as long as a read past the cache shows it silent.
func TestOff(t *testing.T) {
	lost := metav1.NewTime(time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct {
		live  func(*corev1.Node)
		fence func(*v1alpha1.NodeFence)
		want  bool
	}{
		"proven":                      {want: true},
		"it answers, says the API":    {live: func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue }},
		"it has booted anew":          {live: func(n *corev1.Node) { n.Status.NodeInfo.BootID = "boot-2" }},
		"it is another":               {live: func(n *corev1.Node) { n.UID = "other" }},
		"not proven":                  {fence: func(f *v1alpha1.NodeFence) { f.Status.ProvenTime = nil }},
		"of another node":             {fence: func(f *v1alpha1.NodeFence) { f.Spec.NodeName = "n2" }},
		"labelled by a wrong kubelet": {fence: func(f *v1alpha1.NodeFence) { f.Status = v1alpha1.NodeFenceStatus{} }, live: func(n *corev1.Node) { n.Labels = map[string]string{"off": "true"} }},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid"}}
			node.Status.NodeInfo.BootID = "boot-1"
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: lost}}
			fence := &v1alpha1.NodeFence{
				ObjectMeta: metav1.ObjectMeta{Name: "n1-x"},
				Spec:       v1alpha1.NodeFenceSpec{NodeName: "n1", NodeUID: "uid", BootID: "boot-1", UnreachableSince: lost},
				Status:     v1alpha1.NodeFenceStatus{Step: v1alpha1.FenceWaitingForPods, ProvenTime: &lost, Taint: v1alpha1.TaintByUsher},
			}
			live := node.DeepCopy()
			if c.live != nil {
				c.live(live)
			}
			if c.fence != nil {
				c.fence(fence)
			}
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			store := func(objects ...client.Object) client.Client {
				return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
			}
			g := &Gatherer{Policies: New(store(node, fence), nil, nil), Live: store(live), Now: time.Now}
			got, err := g.off(t.Context(), "n1", nil)
			if err != nil || got != c.want {
				t.Errorf("%t, %v", got, err)
			}
		})
	}
}

// The pods of a lost node are removed together, and for all of them it is read once; after its time it is read again.
func TestANodeIsReadOnce(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid"}}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reads := 0
	live := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(node).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, object, options...)
		},
	})
	g := &Gatherer{Live: live, Now: func() time.Time { return now }}
	for _, c := range []struct {
		name  string
		after time.Duration
		want  int // reads by then
	}{
		{"n1", 0, 1},
		{"n1", nodeLife - 1, 1},
		{"n2", 0, 2}, // which is not there
		{"n2", 0, 3},
		{"n1", 1, 4},
		{"n1", -time.Hour, 5}, // the clock was set back
	} {
		now = now.Add(c.after)
		if _, err := g.readNode(t.Context(), c.name); err != nil || reads != c.want {
			t.Errorf("%s, %s later: %d reads, %v", c.name, c.after, reads, err)
		}
	}
}
