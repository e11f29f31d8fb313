package expiry

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/evictionrequest"
)

const (
	tainter = "system:serviceaccount:kube-system:taint-eviction-controller"
	rollout = "system:serviceaccount:kube-system:statefulset-controller"
)

// refused is what admission asked for in the name of a user that asked last that long ago.
func refused(user string, ago time.Duration) *api.EvictionRequest {
	r := asked(evictionrequest.Requester(user), ago)
	r.Annotations = map[string]string{evictionrequest.LastRequestTimeAnnotation: now.Add(-ago).Format(time.RFC3339)}
	return r
}

func tainted(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "down", Effect: corev1.TaintEffectNoExecute}}},
	}
}

// ofSet is the pod of a StatefulSet.
func ofSet() *corev1.Pod {
	pod := on("a")
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "set", Controller: new(true)}}
	return pod
}

func controllerOver(t *testing.T, faults interceptor.Funcs, objects ...client.Object) *reconciler {
	t.Helper()
	all, clock := store(t, faults, objects...), func() time.Time { return now }
	return &reconciler{Options: Options{Now: clock, Act: &act.Governed{Client: all, Lifecycle: lifecycleapi.Usher, Now: clock}}, client: all, live: all}
}

func TestRequestsOfRefusedCallers(t *testing.T) {
	const stands, withdrawn = api.EvictionRequestIntentEviction, api.EvictionRequestIntentWithdrawn
	byHand := asked(evictionrequest.Requester("jane"), time.Hour)
	cases := map[string]struct {
		request *api.EvictionRequest
		pod     *corev1.Pod
		node    *corev1.Node
		want    api.EvictionRequestIntent
		again   time.Duration
	}{
		"of a caller that goes on":                  {refused("jane", 9*time.Minute), on("a"), tainted("a"), stands, time.Minute},
		"of a caller that has given up":             {refused("jane", 10*time.Minute), on("a"), tainted("a"), withdrawn, 0},
		"… for a pod that is gone":                  {refused("jane", 10*time.Minute), nil, nil, withdrawn, 0},
		"… for a pod that is on no node":            {refused("jane", 10*time.Minute), on(""), nil, withdrawn, 0},
		"that the caller made itself":               {byHand, on("a"), tainted("a"), stands, 0},
		"for a taint that stands":                   {refused(tainter, time.Hour), on("a"), tainted("a"), stands, whileHeld},
		"for a taint that is gone":                  {refused(tainter, time.Hour), on("a"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, withdrawn, 0},
		"for a taint of a node that is gone":        {refused(tainter, time.Hour), on("a"), nil, withdrawn, 0},
		"of a pod's controller":                     {refused(rollout, 10*time.Minute), ofSet(), tainted("a"), stands, 10 * time.Minute},
		"of a controller that owns the pod no more": {refused(rollout, time.Minute), on("a"), tainted("a"), withdrawn, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{c.request}
			if c.pod != nil {
				objects = append(objects, c.pod)
			}
			if c.node != nil {
				objects = append(objects, c.node)
			}
			s := controllerOver(t, interceptor.Funcs{}, objects...)
			if got, again := look(t, s, c.request); got != c.want || again != c.again {
				t.Errorf("intent %s, looked at again in %s; want %s, %s", got, again, c.want, c.again)
			}
		})
	}
}

// TestCallerAsksAgainMeanwhile: a caller that asks again at this moment has not given up.
func TestCallerAsksAgainMeanwhile(t *testing.T) {
	request := refused("jane", time.Hour)
	meanwhile := interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		renewed := &api.EvictionRequest{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), renewed); err != nil {
			return err
		}
		renewed.Annotations[evictionrequest.LastRequestTimeAnnotation] = now.Format(time.RFC3339)
		if err := c.Update(ctx, renewed); err != nil {
			return err
		}
		return c.Patch(ctx, o, p, opts...)
	}}
	s := controllerOver(t, meanwhile, request, on("a"), tainted("a"))
	if got, again := look(t, s, request); got != api.EvictionRequestIntentEviction || again != lostRace {
		t.Errorf("intent %s, looked at again in %s", got, again)
	}
}

func TestWhatIsLookedAt(t *testing.T) {
	request := refused(rollout, time.Minute)
	s := controllerOver(t, interceptor.Funcs{}, request)
	for name, c := range map[string]struct {
		passes, want bool
	}{
		"of a drain":             {expire().Create(event.CreateEvent{Object: asked("drain.usher.sh/d1", 0)}), true},
		"of admission":           {expire().Create(event.CreateEvent{Object: request}), true},
		"of another":             {expire().Create(event.CreateEvent{Object: asked("requester.usher.sh/anna", 0)}), false},
		"a pod loses its owner":  {losesOwner().Update(event.UpdateEvent{ObjectOld: ofSet(), ObjectNew: on("a")}), true},
		"a pod keeps its owner":  {losesOwner().Update(event.UpdateEvent{ObjectOld: ofSet(), ObjectNew: ofSet()}), false},
		"a pod never had one":    {losesOwner().Update(event.UpdateEvent{ObjectOld: on("a"), ObjectNew: on("a")}), false},
		"a pod is seen at first": {losesOwner().Create(event.CreateEvent{Object: on("a")}), false},
	} {
		if c.passes != c.want {
			t.Errorf("%s: passes %t", name, c.passes)
		}
	}
	if keys := s.requestsOf(t.Context(), on("a")); len(keys) != 1 || keys[0].Name != request.Name {
		t.Errorf("a pod's requests: %v", keys)
	}
}
