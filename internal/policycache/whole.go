package policycache

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// Whole reads from a cache that holds reduced pods in namespaces without policies, and hands out none where there is a
// policy: pods that were cached before the first policy of their namespace are read from the apiserver, once, and kept until
// the cache has a later version. It may be used by several goroutines at once.
type Whole struct {
	client.Reader // the cache

	live    client.Reader
	slim    func(*corev1.Pod) *corev1.Pod
	room    *room
	flights singleflight.Group // by namespace

	mu   sync.Mutex
	read map[string]map[types.UID]*corev1.Pod // by namespace
}

// NewWhole returns a Whole over a cache. Live reads past it, and slim drops what the cache drops of every pod.
func NewWhole(cache, live client.Reader, slim func(*corev1.Pod) *corev1.Pod) *Whole {
	return &Whole{Reader: cache, live: live, slim: slim, room: newRoom()}
}

// Get implements client.Reader.
func (w *Whole) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := w.Reader.Get(ctx, key, object, options...); err != nil {
		return err
	}
	pod, ok := object.(*corev1.Pod)
	if !ok || !Reduced(pod) {
		return nil
	}
	return w.complete(ctx, pod.Namespace, []*corev1.Pod{pod})
}

// List implements client.Reader.
func (w *Whole) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := w.Reader.List(ctx, list, options...); err != nil {
		return err
	}
	pods, ok := list.(*corev1.PodList)
	if !ok {
		return nil
	}
	reduced := map[string][]*corev1.Pod{}
	for i := range pods.Items {
		if pod := &pods.Items[i]; Reduced(pod) {
			reduced[pod.Namespace] = append(reduced[pod.Namespace], pod)
		}
	}
	for namespace, pods := range reduced {
		if err := w.complete(ctx, namespace, pods); err != nil {
			return err
		}
	}
	return nil
}

// complete replaces reduced pods of a namespace by whole ones if it has a policy.
func (w *Whole) complete(ctx context.Context, namespace string, pods []*corev1.Pod) error {
	var policies v1alpha1.EvictionPolicyList
	if err := w.Reader.List(ctx, &policies, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the policies of namespace %s: %w", namespace, err)
	}
	if len(policies.Items) == 0 {
		w.keep(namespace, nil)
		return nil
	}
	if w.fill(namespace, pods) == nil {
		return nil
	}
	var missing *corev1.Pod
	for joined, tries := true, 0; joined && tries < 2; tries++ { // a read that others began may be older than these pods
		var err error
		if joined, err = w.readOnce(ctx, namespace); err != nil {
			return err
		}
		if missing = w.fill(namespace, pods); missing == nil {
			return nil
		}
	}
	return fmt.Errorf("reading pod %s in %s: the cache has it and the apiserver does not, or not yet", missing.Name, namespace)
}

// fill replaces those pods that were read, and returns one that was not.
func (w *Whole) fill(namespace string, pods []*corev1.Pod) (missing *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pod := range pods {
		whole := w.read[namespace][pod.UID]
		if whole == nil || newer(pod, whole) {
			return pod
		}
		*pod = *whole
	}
	return nil
}

func (w *Whole) keep(namespace string, pods map[types.UID]*corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case pods == nil:
		delete(w.read, namespace)
	case w.read == nil:
		w.read = map[string]map[types.UID]*corev1.Pod{namespace: pods}
	default:
		w.read[namespace] = pods
	}
}
