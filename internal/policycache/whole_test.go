package policycache

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/internal/eviction"
)

// reading is a cache that has reduced pods, and an apiserver that counts how often it is asked for pods.
type reading struct {
	*setting
	cache client.Client
	whole *Whole
	asked int
}

func newReading(t *testing.T, cached []client.Object, live ...client.Object) *reading {
	t.Helper()
	r := &reading{setting: newSetting(t, live...)}
	r.cache = fake.NewClientBuilder().WithScheme(r.store.Scheme()).WithObjects(cached...).WithIndex(&corev1.Pod{}, LeavingIndex, IndexLeaving).Build()
	counting := interceptor.NewClient(fake.NewClientBuilder().WithScheme(r.store.Scheme()).WithObjects(live...).Build(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			r.asked++
			return c.List(ctx, list, options...)
		},
	})
	r.whole = NewWhole(r.cache, counting, func(p *corev1.Pod) *corev1.Pod { return p })
	r.gatherer.Policies = New(r.whole, r.gatherer.Policies.kind, nil)
	r.gatherer.Live = counting
	return r
}

func annotated(pod *corev1.Pod) {
	pod.Annotations = map[string]string{"id": pod.Name}
	pod.ResourceVersion = "5"
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

func reduced(pod *corev1.Pod) {
	annotated(pod)
	Reduce(pod)
}

// TestReducedPodsAreNotJudged: a pod that was cached before the first policy of its namespace is read whole, by name, in lists
// and among the peers of another; its annotations and its local storage are not taken for absent.
func TestReducedPodsAreNotJudged(t *testing.T) {
	policy := newPolicy("p", "a", rule)
	r := newReading(t,
		[]client.Object{policy, newPod("a-0", "a", reduced), newPod("a-1", "a", reduced, terminating)},
		newPod("a-0", "a", annotated), newPod("a-1", "a", annotated, terminating))
	in := r.input(t, "a-0")
	if in.Pod.Annotations["id"] != "a-0" || len(in.Pod.EmptyDirs) != 1 {
		t.Errorf("the pod is judged by %+v", in.Pod)
	}
	if len(in.Peers) != 1 || in.Peers[0].Annotations["id"] != "a-1" {
		t.Errorf("its peers are %+v", in.Peers)
	}
	pods, err := r.gatherer.Policies.Pods(t.Context(), "db")
	if err != nil || len(pods) != 2 || pods[0].Annotations["id"] != "a-0" || pods[1].Annotations["id"] != "a-1" {
		t.Errorf("all pods are %+v, %v", pods, err)
	}
	if r.asked != 1 {
		t.Errorf("the apiserver was asked %d times, want once", r.asked)
	}
}

func TestReducedPodsStaySoWhereNoPolicyIs(t *testing.T) {
	r := newReading(t, []client.Object{newPod("a-0", "a", reduced)}, newPod("a-0", "a", annotated))
	if in := r.input(t, "a-0"); len(eviction.Claims(in.Policies, in.Pod)) > 0 || r.asked > 0 {
		t.Errorf("%+v is claimed, or the apiserver was asked (%d times)", in.Pod, r.asked)
	}
}

// TestWholePodsGrowOld: what was read is not used once the cache has a later version, reduced or not.
func TestWholePodsGrowOld(t *testing.T) {
	policy := newPolicy("p", "a", rule)
	r := newReading(t, []client.Object{policy, newPod("a-0", "a", reduced)}, newPod("a-0", "a", annotated))
	r.input(t, "a-0")
	later := newPod("a-0", "a", reduced, func(p *corev1.Pod) { p.ResourceVersion = "" })
	for range 10 { // the fake counts versions up from 999
		if err := r.cache.Update(t.Context(), later); err != nil {
			t.Fatal(err)
		}
		later.ResourceVersion = ""
	}
	if _, _, err := r.gatherer.Pod(t.Context(), client.ObjectKey{Namespace: "db", Name: "a-0"}); err == nil {
		t.Error("an old version of the pod is handed out for a later one that is not known")
	}
	if r.asked != 2 {
		t.Errorf("the apiserver was asked %d times, want twice", r.asked)
	}
}

// TestFirstPolicyAfterThePodWasRead: the policy comes between reading the pod and judging it.
func TestFirstPolicyAfterThePodWasRead(t *testing.T) {
	r := newReading(t, []client.Object{newPod("a-0", "a", reduced)}, newPod("a-0", "a", annotated))
	pod, _, err := r.gatherer.Pod(t.Context(), client.ObjectKey{Namespace: "db", Name: "a-0"})
	if err != nil || !Reduced(pod) {
		t.Fatalf("got %+v, %v", pod, err)
	}
	if err := r.cache.Create(t.Context(), newPolicy("p", "a", rule)); err != nil {
		t.Fatal(err)
	}
	if in, err := r.gatherer.Input(t.Context(), Subject{Pod: pod}); err == nil {
		t.Errorf("a reduced pod is judged: %+v", in)
	}
}
