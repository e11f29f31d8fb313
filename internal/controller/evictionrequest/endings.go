package evictionrequest

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/evictionrequest"
)

// endings remembers when pods were first seen gone or terminal, for as long as their responders may still have a last
// word. A process that forgot it waits that long once more.
type endings struct {
	mu   sync.Mutex
	seen map[types.UID]time.Time
}

func newEndings() *endings { return &endings{seen: map[types.UID]time.Time{}} }

// since returns when the pod was first seen to have ended, which is now if it was not yet.
func (e *endings) since(uid types.UID, now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if first, ok := e.seen[uid]; ok {
		return first
	}
	for other, at := range e.seen {
		if now.Sub(at) > 10*evictionrequest.EndGrace {
			delete(e.seen, other)
		}
	}
	e.seen[uid] = now
	return now
}

func (e *endings) known(uid types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.seen[uid]
	return ok
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// ends passes the events in which a pod goes or ends; nothing else about a pod matters to its requests and evictions. A watch that was broken shows a
// pod that is gone as one that has become another of its name.
func ends() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			pod, ok := e.ObjectNew.(*corev1.Pod)
			return ok && (ended(pod) || e.ObjectOld.GetUID() != pod.UID)
		},
	}
}

// evictionsOfEnded maps a pod that has ended to its evictions.
func (s *reconciler) evictionsOfEnded(ctx context.Context, o client.Object) []reconcile.Request {
	return s.ending(ctx, o, s.evictionKeys(ctx, o.GetNamespace(), o.GetName()))
}

// requestsOfEnded maps a pod that has ended to its requests: one without an eviction, because it is withdrawn or waits for the next, can then
// never be served, and no other event follows.
func (s *reconciler) requestsOfEnded(ctx context.Context, o client.Object) []reconcile.Request {
	return s.ending(ctx, o, s.requestKeys(ctx, o.GetNamespace(), o.GetName()))
}

// ending dates a pod's end from when it was first seen, and returns the keys that it wakes.
func (s *reconciler) ending(ctx context.Context, o client.Object, keys []reconcile.Request) []reconcile.Request {
	if len(keys) == 0 {
		return nil
	}
	var pod corev1.Pod // that has the name now
	err := s.client.Get(ctx, client.ObjectKeyFromObject(o), &pod)
	if apierrors.IsNotFound(err) || err == nil && (pod.UID != o.GetUID() || ended(&pod)) {
		s.endings.since(o.GetUID(), time.Now().Truncate(time.Second))
	}
	return keys
}
