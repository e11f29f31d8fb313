package evictionrequest

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/lifecycle"
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
		if now.Sub(at) > 10*lifecycle.EndGrace {
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

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// endOfPods enqueues the evictions of pods that are gone or have ended; nothing else about a pod matters here.
func (s *shell) endOfPods() handler.EventHandler {
	enqueue := func(ctx context.Context, pod *corev1.Pod, q queue) {
		for _, key := range s.evictionKeys(ctx, pod.Namespace, pod.Name) {
			s.endings.since(pod.UID, time.Now().Truncate(time.Second))
			q.Add(key)
		}
	}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if pod, ok := e.ObjectNew.(*corev1.Pod); ok && ended(pod) {
				enqueue(ctx, pod, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if pod, ok := e.Object.(*corev1.Pod); ok {
				enqueue(ctx, pod, q)
			}
		},
	}
}
