package repair

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/system/all"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func TestNextLook(t *testing.T) {
	for name, test := range map[string]struct {
		at   time.Time
		want time.Duration
	}{
		"nothing is due":              {time.Time{}, unwatched},
		"soon":                        {noon.Add(30 * time.Second), 30 * time.Second},
		"later than is looked at all": {noon.Add(time.Hour), unwatched},
		"at once":                     {noon.Add(time.Second), pause},
		"while it was looked":         {noon.Add(-time.Second), pause},
	} {
		if got := next(noon, &replacement.RepairResult{NextLook: test.at}); got != test.want {
			t.Errorf("%s: after %s, want %s", name, got, test.want)
		}
	}
}

func TestNodeChanges(t *testing.T) {
	node := func(change ...func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1"}}
		n.Spec.Taints = []corev1.Taint{{Key: "slow", Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.NewTime(noon))}}
		for _, c := range change {
			c(n)
		}
		return n
	}
	for name, test := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"nothing":           {func(*corev1.Node) {}, false},
		"its status":        {func(n *corev1.Node) { n.Status.Phase = "x" }, false},
		"a taint is put on": {func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "other"}) }, true},
		"it is taken off":   {func(n *corev1.Node) { n.Spec.Taints = nil }, true},
		"another key":       {func(n *corev1.Node) { n.Spec.Taints[0].Key = "other" }, true},
		"another effect":    {func(n *corev1.Node) { n.Spec.Taints[0].Effect = corev1.TaintEffectNoSchedule }, true},
		"taken off and put on again unseen": {func(n *corev1.Node) {
			n.Spec.Taints[0].TimeAdded = new(metav1.NewTime(noon.Add(time.Minute)))
		}, true},
		"it is Ready": {func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}, true},
		"its kubelet goes on reporting": {func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}}
		}, false},
		"it is cordoned":  {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"it is made anew": {func(n *corev1.Node) { n.UID = "2" }, true},
	} {
		if got := nodeChanges().Update(event.UpdateEvent{ObjectOld: node(), ObjectNew: node(test.change)}); got != test.want {
			t.Errorf("%s: wakes %t, want %t", name, got, test.want)
		}
	}
}

// behind is a client whose cache has no requests yet.
type behind struct{ client.Client }

func (b behind) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, requests := list.(*v1alpha1.ReplacementRequestList); requests {
		return nil
	}
	return b.Client.List(ctx, list, options...)
}

// A request that was made by another client a moment ago is in flight, although the cache does not have it.
func TestRequestsThatTheCacheLacksCount(t *testing.T) {
	for name, test := range map[string]struct {
		other string // the member that another request is for; "": none
		want  int
	}{
		"none stands":                   {"", 1},
		"one stands for another member": {"db-1", 1},
		"one stands for the member":     {"db-0", 1},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t)
			if test.other != "" {
				request := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "by-anna", CreationTimestamp: metav1.NewTime(noon)}}
				request.Spec = v1alpha1.ReplacementRequestSpec{
					Requester: "person.usher.sh/anna", Source: v1alpha1.ReplacementSource{Kind: v1alpha1.SourceEvictionPolicy, Name: "db"},
					Member: v1alpha1.ReplacementMember{Role: "replica", ID: test.other},
				}
				if err := store.Create(t.Context(), request); err != nil {
					t.Fatal(err)
				}
			}
			r := newReconciler(t, store)
			if _, err := r.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "db"}}); err != nil {
				t.Fatal(err)
			}
			var all v1alpha1.ReplacementRequestList
			if err := store.List(t.Context(), &all); err != nil || len(all.Items) != test.want {
				t.Errorf("%d requests, want %d; %v", len(all.Items), test.want, err)
			}
		})
	}
}

// pages is an apiserver of which no list of what tenants write may be asked for whole.
type pages struct{ client.Client }

func (p pages) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	for _, o := range options {
		o.ApplyToList(&asked)
	}
	if asked.Limit == 0 || asked.Limit > observe.AtOnce {
		return fmt.Errorf("%T is asked for whole", list)
	}
	return p.Client.List(ctx, list, options...)
}

// Requests are read past the cache in pages: each may be as large as the apiserver takes it.
func TestRequestsAreReadInPages(t *testing.T) {
	r := newReconciler(t, newStore(t))
	r.live = pages{r.live.(client.Client)}
	policy, err := r.Gatherer.Policies.Policy(t.Context(), client.ObjectKey{Namespace: "shop", Name: "db"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.anew(t.Context(), policy.DeepCopy()); err != nil {
		t.Error(err)
	}
}

// hanging is a cache that shows the policy as it was.
type hanging struct {
	client.Client
	shows *v1alpha1.EvictionPolicy
}

func (h hanging) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if policy, ok := object.(*v1alpha1.EvictionPolicy); ok {
		h.shows.DeepCopyInto(policy)
		return nil
	}
	return h.Client.Get(ctx, key, object, options...)
}

// What this process wrote is known although the cache shows what was there before: what stands anew would be taken for what stood, and never written.
func TestWhatWasWrittenIsKnown(t *testing.T) {
	store := newStore(t)
	cordoned := []v1alpha1.UnhealthyMember{{Role: "replica", ID: "db-0", Paused: "its node is cordoned"}}
	stored := func() *v1alpha1.EvictionPolicy {
		policy := &v1alpha1.EvictionPolicy{}
		if err := store.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "db"}, policy); err != nil {
			t.Fatal(err)
		}
		return policy
	}
	r := newReconciler(t, store)
	if _, err := r.write(t.Context(), stored(), cordoned, 0); err != nil {
		t.Fatal(err)
	}
	known := policycache.New(hanging{store, stored()}, all.Kind, nil)
	r.Gatherer.Policies = known
	for _, unhealthy := range [][]v1alpha1.UnhealthyMember{nil, cordoned} {
		policy, err := known.Policy(t.Context(), client.ObjectKey{Namespace: "shop", Name: "db"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.write(t.Context(), policy, unhealthy, 0); err != nil {
			t.Fatal(err)
		}
		if got := stored().Status.Unhealthy; len(got) != len(unhealthy) {
			t.Errorf("%+v, want %+v", got, unhealthy)
		}
	}
}

// newStore has a policy whose member db-0 has no pod.
func newStore(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	set.Spec.Replicas, set.Spec.Template.Labels = new(int32(1)), map[string]string{"app": "db"}
	policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	policy.Spec.System.Kubernetes = &v1alpha1.Kubernetes{}
	policy.Spec.Repair = &v1alpha1.Repair{Mode: v1alpha1.RepairAutomatic, UnhealthyAfter: &metav1.Duration{}}
	policy.Spec.Members = []v1alpha1.MemberSelector{{
		Role: "replica", ID: "pod.name", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		Provider: &v1alpha1.Provider{StatefulSet: &v1alpha1.StatefulSetProvider{}},
	}}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(set, policy).
		WithStatusSubresource(&v1alpha1.EvictionPolicy{}, &v1alpha1.ReplacementRequest{}).Build()
}

func newReconciler(t *testing.T, store client.Client) *reconciler {
	t.Helper()
	roles, err := all.Roles()
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return noon }
	cache := behind{store}
	policies := policycache.New(cache, all.Kind, roles)
	observer := policycache.NewObserver(policycache.ObserverConfig{Kind: all.Kind, Now: now, Log: slog.New(slog.DiscardHandler)})
	return &reconciler{
		Options: Options{Act: &act.Replacements{Client: cache}, Gatherer: &policycache.Gatherer{Policies: policies, Observer: observer, Live: store, Now: now}, Now: now},
		client:  cache, live: store, looked: map[client.ObjectKey]time.Time{},
	}
}
