package expiry

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/snapshot"
)

var now = time.Date(2026, time.November, 21, 8, 0, 0, 0, time.UTC)

// asked is the request of a requester for pod db-0, made that long ago.
func asked(requester string, ago time.Duration) *api.EvictionRequest {
	r := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "shop", Name: "db-0", UID: "pod"}, requester)
	r.CreationTimestamp = metav1.NewTime(now.Add(-ago))
	return r
}

// node carries the record of a drain, "" for none.
func node(t *testing.T, name, drain, state string, beat time.Time) *corev1.Node {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	if drain == "" {
		return n
	}
	text, err := (&snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: drain, Beat: beat}, Since: now.Add(-time.Hour), State: state}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	n.Annotations = map[string]string{snapshot.DrainAnnotation: text}
	return n
}

func cordoned(n *corev1.Node) *corev1.Node {
	n.Spec.Unschedulable = true
	return n
}

func on(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "pod"}, Spec: corev1.PodSpec{NodeName: name}}
}

func store(t *testing.T, faults interceptor.Funcs, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	lifecycleapi.AddToScheme(scheme, lifecycleapi.Usher)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(faults).
		WithIndex(&corev1.Node{}, drainIndex, drainOf).WithIndex(&api.EvictionRequest{}, requesterIndex, requesterDrain).WithIndex(&api.EvictionRequest{}, targets.Field, targets.IndexPod).Build()
}

func look(t *testing.T, s *reconciler, request *api.EvictionRequest) (intent api.EvictionRequestIntent, again time.Duration) {
	t.Helper()
	key := client.ObjectKeyFromObject(request)
	result, err := s.reconcile(t.Context(), reconcile.Request{NamespacedName: key})
	if err != nil {
		t.Fatal(err)
	}
	after := &api.EvictionRequest{}
	if err := s.client.Get(t.Context(), key, after); err != nil {
		t.Fatal(err)
	}
	return after.Spec.Intent, result.RequeueAfter
}

func TestRequestsOfEndedDrains(t *testing.T) {
	const drain, stands, withdrawn = "drain.usher.sh/d1", api.EvictionRequestIntentEviction, api.EvictionRequestIntentWithdrawn
	cases := map[string]struct {
		requester string
		age       time.Duration
		node      *corev1.Node // of the pod
		other     *corev1.Node
		want      api.EvictionRequestIntent
		again     time.Duration
	}{
		"of a drain that lives":             {drain, time.Hour, node(t, "a", "d1", "draining", now.Add(-20*time.Second)), nil, stands, 40 * time.Second},
		"… on another node":                 {drain, time.Hour, node(t, "a", "d1", "blocked", now.Add(-time.Hour)), node(t, "b", "d1", "draining", now), stands, time.Minute},
		"of a drain that was killed":        {drain, time.Hour, node(t, "a", "d1", "draining", now.Add(-time.Minute)), nil, withdrawn, 0},
		"of a drain that has just begun":    {drain, 10 * time.Second, node(t, "a", "", "", now), nil, stands, 50 * time.Second},
		"of a drain that has ended":         {drain, time.Hour, node(t, "a", "d1", "interrupted", now), nil, withdrawn, 0},
		"of a drain that keeps a pod empty": {drain, time.Hour, cordoned(node(t, "a", "d1", "drained", now.Add(-time.Hour))), nil, stands, 0},
		"… whose node was given back":       {drain, time.Hour, node(t, "a", "d1", "drained", now.Add(-time.Hour)), nil, withdrawn, 0},
		"… whose node another has drained":  {drain, time.Hour, cordoned(node(t, "a", "d2", "drained", now.Add(-time.Hour))), nil, withdrawn, 0},
		"… on another node than the pod's":  {drain, time.Hour, node(t, "a", "", "", now), cordoned(node(t, "b", "d1", "drained", now)), withdrawn, 0},
		"of a drain whose record is gone":   {drain, time.Hour, node(t, "a", "", "", now), nil, withdrawn, 0},
		"… where another one drains":        {drain, time.Hour, node(t, "a", "d2", "draining", now), nil, withdrawn, 0},
		"with a beat from the future":       {drain, time.Hour, node(t, "a", "d1", "draining", now.Add(time.Hour)), nil, withdrawn, 0},
		"of a requester that is no drain":   {"requester.usher.sh/anna", time.Hour, node(t, "a", "", "", now), nil, stands, 0},
		"of another program by that prefix": {"drain.example.com/d1", time.Hour, node(t, "a", "", "", now), nil, stands, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			request := asked(c.requester, c.age)
			objects := []client.Object{request, on("a"), c.node}
			if c.other != nil {
				objects = append(objects, c.other)
			}
			all := store(t, interceptor.Funcs{}, objects...)
			s := &reconciler{Options: Options{Now: func() time.Time { return now }}, client: all, live: all}
			if got, again := look(t, s, request); got != c.want || again != c.again {
				t.Errorf("intent %s, looked at again in %s; want %s, %s", got, again, c.want, c.again)
			}
		})
	}
}

// leased is the node of a drain that says that its signs of life are in its Lease.
func leased(t *testing.T, drain string, beat time.Time) *corev1.Node {
	t.Helper()
	n := node(t, "a", drain, "draining", beat)
	n.Annotations[snapshot.DrainAnnotation] = strings.Replace(n.Annotations[snapshot.DrainAnnotation], `"since"`, `"lease":true,"since"`, 1)
	return n
}

func leaseOf(drain string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: snapshot.LeaseNamespace, Name: snapshot.LeaseName(drain), UID: "lease"},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: renewed}},
	}
}

// A drain with a Lease lives by that. Where it cannot be read, the drain counts as running for a quarter of an hour.
func TestRequestsOfDrainsWithLeases(t *testing.T) {
	const stands, withdrawn = api.EvictionRequestIntentEviction, api.EvictionRequestIntentWithdrawn
	unread := func(err error) interceptor.Funcs {
		return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if _, lease := o.(*coordinationv1.Lease); lease {
				return err
			}
			return c.Get(ctx, key, o, options...)
		}}
	}
	forbidden := unread(apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "x", errors.New("no right")))
	broken := unread(apierrors.NewInternalError(errors.New("etcd: it cannot be decoded")))
	cases := map[string]struct {
		written time.Duration // before now
		lease   *coordinationv1.Lease
		faults  interceptor.Funcs
		want    api.EvictionRequestIntent
		again   time.Duration
	}{
		"renewed":                    {time.Hour, leaseOf("d1", now.Add(-20*time.Second)), interceptor.Funcs{}, stands, 40 * time.Second},
		"not renewed":                {time.Hour, leaseOf("d1", now.Add(-time.Minute)), interceptor.Funcs{}, withdrawn, 0},
		"dated into the future":      {time.Hour, leaseOf("d1", now.Add(time.Hour)), interceptor.Funcs{}, withdrawn, 0},
		"of another drain":           {time.Hour, leaseOf("d2", now), interceptor.Funcs{}, withdrawn, 0},
		"not there yet":              {20 * time.Second, leaseOf("d2", now), interceptor.Funcs{}, stands, 40 * time.Second},
		"that may not be read":       {10 * time.Minute, leaseOf("d1", now), forbidden, stands, 5 * time.Minute},
		"… for a quarter of an hour": {15 * time.Minute, leaseOf("d1", now), forbidden, withdrawn, 0},
		"that is not answered":       {10 * time.Minute, leaseOf("d1", now), broken, stands, time.Minute},
		"… at the end of that":       {15*time.Minute - 20*time.Second, leaseOf("d1", now), broken, stands, 20 * time.Second},
		"… and after it":             {15 * time.Minute, leaseOf("d1", now), broken, withdrawn, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			request := asked("drain.usher.sh/d1", time.Hour)
			all := store(t, c.faults, request, on("a"), leased(t, "d1", now.Add(-c.written)), c.lease)
			s := &reconciler{Options: Options{Now: func() time.Time { return now }}, client: all, live: all}
			if got, again := look(t, s, request); got != c.want || again != c.again {
				t.Errorf("intent %s, looked at again in %s; want %s, %s", got, again, c.want, c.again)
			}
		})
	}
}

// A watch that hangs shows old signs of life, or none: the apiserver is asked before a request is withdrawn.
func TestNodesAreReadLive(t *testing.T) {
	request := asked("drain.usher.sh/d1", time.Hour)
	for name, c := range map[string]struct {
		cached, live *corev1.Node
		again        time.Duration
	}{
		"an old sign of life": {node(t, "a", "d1", "draining", now.Add(-time.Hour)), node(t, "a", "d1", "draining", now), snapshot.LiveFor},
		"no record yet":       {node(t, "a", "", "", now), node(t, "a", "d1", "draining", now), snapshot.LiveFor},
		"not drained yet":     {cordoned(node(t, "a", "d1", "draining", now.Add(-time.Hour))), cordoned(node(t, "a", "d1", "drained", now.Add(-time.Hour))), whileHeld},
	} {
		t.Run(name, func(t *testing.T) {
			s := &reconciler{
				Options: Options{Now: func() time.Time { return now }},
				client:  store(t, interceptor.Funcs{}, request.DeepCopy(), on("a"), c.cached),
				live:    store(t, interceptor.Funcs{}, c.live),
			}
			if got, again := look(t, s, request); got != api.EvictionRequestIntentEviction || again != c.again {
				t.Errorf("intent %s, looked at again in %s", got, again)
			}
		})
	}
}

// TestLostRace: a request that was changed in between is judged anew.
func TestLostRace(t *testing.T) {
	request := asked("drain.usher.sh/d1", time.Hour)
	meanwhile := interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		changed := &api.EvictionRequest{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), changed); err != nil {
			return err
		}
		changed.Labels = map[string]string{"changed": "meanwhile"}
		if err := c.Update(ctx, changed); err != nil {
			return err
		}
		return c.Patch(ctx, o, p, opts...)
	}}
	all := store(t, meanwhile, request, on("a"))
	s := &reconciler{Options: Options{Now: func() time.Time { return now }}, client: all, live: all}
	if got, again := look(t, s, request); got != api.EvictionRequestIntentEviction || again != lostRace {
		t.Errorf("intent %s, looked at again in %s", got, again)
	}
}

// A node that is given back has what its drain asked for looked at, whatever has given it back.
func TestNodesThatAreGivenBack(t *testing.T) {
	kept := cordoned(node(t, "a", "d1", "drained", now))
	for name, c := range map[string]struct {
		before, after *corev1.Node
		want          bool
	}{
		"made schedulable":        {kept, node(t, "a", "d1", "drained", now), true},
		"its record is taken off": {kept, cordoned(node(t, "a", "", "", now)), true},
		"taken by another drain":  {kept, cordoned(node(t, "a", "d2", "draining", now)), true},
		"drained by another":      {kept, cordoned(node(t, "a", "d2", "drained", now)), true},
		"its kubelet reports":     {kept, cordoned(node(t, "a", "d1", "drained", now)), false},
		"it was not drained yet":  {cordoned(node(t, "a", "d1", "draining", now)), node(t, "a", "d1", "draining", now), false},
	} {
		if got := givenBack().Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: passes %t", name, got)
		}
	}
	if !givenBack().Delete(event.DeleteEvent{Object: kept}) {
		t.Error("it is deleted")
	}
	all := store(t, interceptor.Funcs{}, asked("drain.usher.sh/d1", time.Hour), asked("drain.usher.sh/d2", time.Hour), asked("requester.usher.sh/anna", time.Hour))
	s := &reconciler{client: all, live: all}
	keys := s.requestsOn(t.Context(), kept)
	if len(keys) != 1 || keys[0].Name != asked("drain.usher.sh/d1", 0).Name {
		t.Errorf("of its drain: %v", keys)
	}
}
