package policy

import (
	"context"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

// rig is the controllers over a store with the namespace prod.
type rig struct {
	client.Client
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
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod", UID: "ns", Labels: map[string]string{v1alpha1.GovernedLabel: "true"}}})
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(faults).
		WithStatusSubresource(&v1alpha1.EvictionPolicy{})
	for _, index := range append(wiring.TargetPodIndexes(), wiring.NodeLockIndexes()...) {
		builder = builder.WithIndex(index.Object, index.Field, index.Values)
	}
	store := builder.Build()
	return &rig{store, newReconciler(newOptions(store, store), store, store, events.NewFakeRecorder(1000))}
}

func newOptions(cache client.Reader, store client.Client) Options {
	kinds := func(*v1alpha1.System) (system.Kind, bool) { return rest.Kind(), true }
	policyCache := policycache.New(cache, kinds, nil)
	observer := policycache.NewObserver(policycache.ObserverConfig{Kind: kinds, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	return Options{
		Gatherer: &policycache.Gatherer{Policies: policyCache, Observer: observer, Live: store, Now: time.Now},
		Act:      &act.Governed{Client: store, Policies: policyCache, Observer: observer, Lifecycle: lifecycleapi.Usher, Now: time.Now},
		Requests: true,
	}
}

// stale is a cache whose watch of pods hangs.
type stale struct {
	client.Reader
	pods corev1.PodList
}

func (s *stale) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if pods, ok := list.(*corev1.PodList); ok {
		s.pods.DeepCopyInto(pods)
		return nil
	}
	return s.Reader.List(ctx, list, options...)
}

// hangPods keeps the pods in the controllers' cache as they are now, and returns what has the watch go on.
func (r *rig) hangPods(t *testing.T) (resume func()) {
	t.Helper()
	cache := &stale{Reader: r.Client}
	if err := r.List(t.Context(), &cache.pods); err != nil {
		t.Fatal(err)
	}
	before := r.reconciler.Options
	r.reconciler.Options = newOptions(cache, r.Client)
	return func() { r.reconciler.Options = before }
}

// member is a pod of the policies of these tests that carries the label, "" for none.
func newMember(name, label string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "db"}}}
	if label != "" {
		pod.Labels[v1alpha1.PolicyLabel] = label
	}
	return pod
}

// refusedCaller is what admission asked for in a caller's name.
func refusedCaller(pod string) *api.EvictionRequest {
	request := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "prod", Name: pod, UID: types.UID(pod)}, evictionrequest.Requester("jane"))
	request.Annotations = map[string]string{evictionrequest.LastRequestTimeAnnotation: time.Now().Format(time.RFC3339)}
	return request
}

// label lets the controller of labels look once.
func (r *rig) label(t *testing.T) (time.Duration, error) {
	t.Helper()
	result, err := r.reconciler.reconcileLabels(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "prod"}})
	return result.RequeueAfter, err
}

func (r *rig) labels(t *testing.T) map[string]string {
	t.Helper()
	var pods corev1.PodList
	if err := r.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for i := range pods.Items {
		found[pods.Items[i].Name] = pods.Items[i].Labels[v1alpha1.PolicyLabel]
	}
	return found
}

func (r *rig) guarded(t *testing.T) bool {
	t.Helper()
	var namespace corev1.Namespace
	if err := r.Get(t.Context(), client.ObjectKey{Name: "prod"}, &namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Labels[v1alpha1.GovernedLabel] != ""
}

// standing names the pods whose eviction is still requested.
func (r *rig) standing(t *testing.T) []string {
	t.Helper()
	var requests api.EvictionRequestList
	if err := r.List(t.Context(), &requests); err != nil {
		t.Fatal(err)
	}
	var pods []string
	for i := range requests.Items {
		if requests.Items[i].Spec.Intent == api.EvictionRequestIntentEviction {
			pods = append(pods, requests.Items[i].Spec.Target.Pod.Name)
		}
	}
	return pods
}
