package cordon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/system"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// rig is the controller over node n1 and a policy that has its agents emptied for a cordon.
type rig struct {
	*reconciler
	// killed: the next write does not happen, since the process is killed.
	killed bool
}

var errKilled = errors.New("the process was killed")

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	r := &rig{}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	lifecycleapi.AddToScheme(scheme, lifecycleapi.Usher)
	died := func() error {
		if r.killed {
			r.killed = false
			return errKilled
		}
		return nil
	}
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, node(false), policy())...).
		WithIndex(&corev1.Pod{}, wiring.GovernedNode, wiring.NodeOfGoverned).
		WithIndex(&api.EvictionRequest{}, targets.Field, targets.IndexPod).WithIndex(&api.Eviction{}, targets.Field, targets.IndexPod).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				if err := died(); err != nil {
					return err
				}
				return c.Create(ctx, o, options...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
				if err := died(); err != nil {
					return err
				}
				return c.Patch(ctx, o, p, options...)
			},
		}).Build()
	kinds := func(*v1alpha1.System) (system.Kind, bool) { return system.Kind{Name: "http"}, true }
	now := func() time.Time { return noon }
	policies := policycache.New(store, kinds, nil)
	observer := policycache.NewObserver(policycache.ObserverConfig{Kind: kinds, Now: now, Log: slog.New(slog.DiscardHandler)})
	r.reconciler = &reconciler{
		Options: Options{
			Gatherer: &policycache.Gatherer{Policies: policies, Observer: observer, Live: store, Now: now},
			Act:      &act.Governed{Client: store, Policies: policies, Observer: observer, Lifecycle: lifecycleapi.Usher, Now: now},
		},
		client: store,
	}
	return r
}

func node(cordoned bool) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{Unschedulable: cordoned}}
}

func policy() *v1alpha1.EvictionPolicy {
	return &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "nova", UID: "policy"},
		Spec: v1alpha1.EvictionPolicySpec{Members: []v1alpha1.MemberSelector{{
			Role: "hypervisor", ID: "pod.name", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "nova"}},
			Leaves: v1alpha1.LeavesLoad, EmptyOn: v1alpha1.EmptyOnCordon,
		}}},
	}
}

func agent(name string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: name, UID: uid, Labels: map[string]string{"app": "nova", v1alpha1.PolicyLabel: "nova"}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
	}
}

// turn looks at the agent once.
func (r *rig) turn(t *testing.T) error {
	t.Helper()
	_, err := r.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "cloud", Name: "nova-a"}})
	return err
}

// standing are the pods for which requests stand, by requester.
func (r *rig) standing(t *testing.T) (uids []string) {
	t.Helper()
	var all api.EvictionRequestList
	if err := r.client.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if request := &all.Items[i]; evictionrequest.Stands(request) {
			uids = append(uids, string(request.Spec.Target.Pod.UID)+" by "+request.Spec.Requester)
		}
	}
	slices.Sort(uids)
	return uids
}

func (r *rig) cordon(t *testing.T, cordoned bool) {
	t.Helper()
	if err := r.client.Update(t.Context(), node(cordoned)); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) wants(t *testing.T, what string, want ...string) {
	t.Helper()
	if err := r.turn(t); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, r.standing(t)); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

const own = "requester.usher.sh/cordon.usher.sh"

// A request stands while the node is cordoned, each time, and for the pod that is there; that of a drain is its own.
func TestARequestStandsWhileTheNodeIsCordoned(t *testing.T) {
	drain := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "cloud", Name: "nova-a", UID: "u1"}, "drain.usher.sh/d1")
	r := newRig(t, agent("nova-a", "u1"), drain)
	r.wants(t, "schedulable", "u1 by drain.usher.sh/d1")
	r.cordon(t, true)
	r.wants(t, "cordoned", "u1 by drain.usher.sh/d1", "u1 by "+own)
	r.wants(t, "looked at again", "u1 by drain.usher.sh/d1", "u1 by "+own)
	if err := r.client.Delete(t.Context(), drain); err != nil {
		t.Fatal(err)
	}
	r.wants(t, "the drain has given up", "u1 by "+own)
	r.cordon(t, false)
	r.wants(t, "given back")
	r.cordon(t, true)
	r.wants(t, "cordoned anew", "u1 by "+own)
	if err := errors.Join(r.client.Delete(t.Context(), agent("nova-a", "u1")), r.client.Create(t.Context(), agent("nova-a", "u2"))); err != nil {
		t.Fatal(err)
	}
	r.wants(t, "the pod is made anew", "u1 by "+own, "u2 by "+own)
}

// What a killed process, or a client, has left is made good by the next look.
func TestWhatIsMissingIsMadeGood(t *testing.T) {
	r := newRig(t, agent("nova-a", "u1"))
	r.cordon(t, true)
	r.killed = true
	if err := r.turn(t); err == nil {
		t.Error("it goes on")
	}
	r.wants(t, "after a restart", "u1 by "+own)
	request := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "cloud", Name: "nova-a", UID: "u1"}, own)
	if err := r.client.Delete(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	r.wants(t, "deleted", "u1 by "+own)
	r.cordon(t, false)
	r.killed = true
	if err := r.turn(t); err == nil {
		t.Error("it goes on")
	}
	r.wants(t, "given back, after a restart")
}

func TestWhatWakesIt(t *testing.T) {
	r := newRig(t, agent("nova-a", "u1"), agent("nova-b", "u2"))
	if keys := r.podsOn(t.Context(), node(true)); len(keys) != 2 {
		t.Errorf("a node wakes %v", keys)
	}
	if keys := r.podsOf(t.Context(), policy()); len(keys) != 2 {
		t.Errorf("a policy wakes %v", keys)
	}
	free := agent("nova-a", "u1")
	delete(free.Labels, v1alpha1.PolicyLabel)
	if keys := append(governed(t.Context(), agent("nova-a", "u1")), governed(t.Context(), free)...); len(keys) != 1 {
		t.Errorf("pods wake %v", keys)
	}
	cordons, members := cordonChanges(), membershipChanges()
	for name, c := range map[string]struct{ got, want bool }{
		"a cordoned node":           {cordons.Create(event.CreateEvent{Object: node(true)}), true},
		"another node":              {cordons.Create(event.CreateEvent{Object: node(false)}), false},
		"a cordon":                  {cordons.Update(event.UpdateEvent{ObjectOld: node(false), ObjectNew: node(true)}), true},
		"the end of one":            {cordons.Update(event.UpdateEvent{ObjectOld: node(true), ObjectNew: node(false)}), true},
		"nothing":                   {cordons.Update(event.UpdateEvent{ObjectOld: node(true), ObjectNew: node(true)}), false},
		"the end of a node":         {cordons.Delete(event.DeleteEvent{Object: node(true)}), true},
		"a pod":                     {members.Create(event.CreateEvent{Object: free}), true},
		"its label":                 {members.Update(event.UpdateEvent{ObjectOld: free, ObjectNew: agent("nova-a", "u1")}), true},
		"another of its name":       {members.Update(event.UpdateEvent{ObjectOld: agent("nova-a", "u1"), ObjectNew: agent("nova-a", "u2")}), true},
		"nothing of a pod":          {members.Update(event.UpdateEvent{ObjectOld: free, ObjectNew: free}), false},
		"its own request":           {ownRequest().Delete(event.DeleteEvent{Object: evictionrequest.NewRequest(evictionrequest.Ref{}, own)}), true},
		"the request of another":    {ownRequest().Delete(event.DeleteEvent{Object: evictionrequest.NewRequest(evictionrequest.Ref{}, "example.com/jane")}), false},
		"its own requester is this": {evictionrequest.Requester(eviction.CordonUser) == own, true},
	} {
		if c.got != c.want {
			t.Errorf("%s: %t", name, c.got)
		}
	}
}
