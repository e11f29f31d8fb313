package responder

import (
	"context"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/system"
)

// database says of each member whether it is empty, and empties it when it is asked to.
type database struct {
	empty    bool
	prepared int
}

func (d *database) Observe(_ context.Context, members []system.Member) (*eviction.Evidence, error) {
	said := &eviction.Evidence{Members: map[string]expression.Facts{}}
	for _, m := range members {
		said.Members[m.ID] = expression.Facts{"empty": d.empty}
	}
	return said, nil
}

func (d *database) Prepare(context.Context, eviction.Preparation) (eviction.Job, error) {
	d.prepared++
	return eviction.Job{}, nil
}

func (d *database) Undo(context.Context, eviction.Preparation) (eviction.Undone, error) {
	return eviction.Undone{Done: true}, nil
}
func (d *database) Close() {}

// rig is the responder over a store in which db-0 is wanted gone and it is Usher's turn.
type rig struct {
	store      client.Client
	database   *database
	reconciler *reconciler
}

func newRig(t *testing.T, faults interceptor.Funcs, objects ...client.Object) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	lifecycleapi.AddToScheme(scheme, lifecycleapi.Usher)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "db-0", UID: "now", Labels: map[string]string{"app": "db", v1alpha1.PolicyLabel: "db"}},
		Spec:       corev1.PodSpec{NodeName: "n1", TerminationGracePeriodSeconds: new(int64(30))},
	}
	ref := evictionrequest.Ref{Namespace: "db", Name: "db-0", UID: "now"}
	objects = append(objects, pod, newPolicy(), evictionrequest.NewRequest(ref, "test.example.com/jane"), servedEviction("pod-9-db-0", "now"))
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(faults).
		WithStatusSubresource(&v1alpha1.EvictionPolicy{}, &api.Eviction{}).
		WithIndex(&corev1.Pod{}, policycache.LeavingIndex, policycache.IndexLeaving).
		WithIndex(&api.EvictionRequest{}, targets.Field, targets.IndexPod).WithIndex(&api.Eviction{}, targets.Field, targets.IndexPod).Build()
	r := &rig{store: store, database: &database{}}
	kind := system.Kind{
		Name: "etcd", Schema: expression.Schema{Member: []expression.Field{{Name: "empty", Type: expression.Bool}}}, Steps: map[string]string{"Drain": "empty it"},
		Open: func(*v1alpha1.System, system.Access) (system.System, error) { return r.database, nil },
	}
	kinds := func(*v1alpha1.System) (system.Kind, bool) { return kind, true }
	policyCache := policycache.New(store, kinds, nil)
	observer := policycache.NewObserver(policycache.ObserverConfig{Kind: kinds, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	r.reconciler = &reconciler{
		Options: Options{
			Gatherer: &policycache.Gatherer{Policies: policyCache, Observer: observer, Live: store, Now: time.Now},
			Act:      &act.Governed{Client: store, Policies: policyCache, Observer: observer, Lifecycle: lifecycleapi.Usher, Now: time.Now},
		},
		client: store, events: events.NewFakeRecorder(100), attempts: newAttempts(), waiting: newWaiting(), podEvents: newEventDeduper(), nodeEvents: newEventDeduper(),
	}
	return r
}

func newPolicy() *v1alpha1.EvictionPolicy {
	return &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "db", UID: "policy", Generation: 1},
		Spec: v1alpha1.EvictionPolicySpec{
			System:  v1alpha1.System{Etcd: &v1alpha1.Etcd{Access: v1alpha1.Access{Endpoints: []string{"http://db"}}}},
			Members: []v1alpha1.MemberSelector{{Role: "node", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}},
			Roles: []v1alpha1.Role{{
				Name: "node", System: "etcd", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
				Evict: v1alpha1.Evict{
					Rules:   []v1alpha1.Rule{{Name: "empty", Reason: "HoldsData", Expression: "member.empty == true", Message: "it holds data"}},
					Prepare: []v1alpha1.Preparation{{Name: "Drain", When: "member.empty != true", Message: "it is being emptied"}},
				},
				Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNewIdentity},
			}},
		},
	}
}

// servedEviction is an Eviction of db-0 in which it is Usher's turn.
func servedEviction(name string, uid types.UID) *api.Eviction {
	return &api.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name, UID: types.UID(name)},
		Spec:       api.EvictionSpec{Target: api.EvictionTarget{Pod: &api.EvictionPodReference{Name: "db-0", UID: uid}}},
		Status: api.EvictionStatus{
			ObservedGeneration: new(int64(1)),
			TargetResponders:   []api.TargetResponder{{Name: evictionrequest.Responder, State: api.ResponderStateActive}},
			Responders:         []api.ResponderStatus{{Name: evictionrequest.Responder, StartTime: &metav1.Time{Time: time.Now().Add(-time.Minute)}}},
		},
	}
}

func (r *rig) look(t *testing.T) (reconcile.Result, error) {
	t.Helper()
	return r.reconciler.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "db", Name: "db-0"}})
}

// message returns the message of Usher's entry in an Eviction.
func (r *rig) message(t *testing.T, name string) string {
	t.Helper()
	var e api.Eviction
	if err := r.store.Get(t.Context(), client.ObjectKey{Namespace: "db", Name: name}, &e); err != nil {
		t.Fatal(err)
	}
	if entry := evictionrequest.Entry(&e, evictionrequest.Responder); entry != nil && entry.Message != nil {
		return *entry.Message
	}
	return ""
}

func (r *rig) policy(t *testing.T) *v1alpha1.EvictionPolicy {
	t.Helper()
	var policy v1alpha1.EvictionPolicy
	if err := r.store.Get(t.Context(), client.ObjectKey{Namespace: "db", Name: "db"}, &policy); err != nil {
		t.Fatal(err)
	}
	return &policy
}

func forbidden(what string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "usher.sh", Resource: "evictionpolicies"}, "db", apierrors.NewBadRequest(what))
}
