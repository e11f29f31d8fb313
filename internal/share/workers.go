package share

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Workers gives each namespace so many of a controller's workers at a time. A key beyond that takes none: it waits until one of
// its namespace is free, which is when a key before it is done, and keys of a namespace have their turn in the order in which
// they came. The controller must have both Source and Reconciler: without a queue, to which a key could go back, none waits.
type Workers struct {
	most int

	mu         sync.Mutex
	queue      workqueue.TypedRateLimitingInterface[reconcile.Request]
	namespaces map[string]*turns
}

// turns are those of one namespace.
type turns struct {
	taken   int // by keys that are worked on or were called
	waiting []reconcile.Request
	called  map[reconcile.Request]bool // of those that wait false; true of those whose turn has come, and which are queued
}

// NewWorkers returns Workers of which each namespace may have most at a time, at least 1.
func NewWorkers(most int) *Workers {
	return &Workers{most: max(most, 1), namespaces: map[string]*turns{}}
}

// Source hands over the controller's queue, to which keys go back when their turn has come.
func (w *Workers) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		w.Into(queue)
		return nil
	})
}

// Into has keys go back to this queue; Source does that where the controller runs its sources.
func (w *Workers) Into(queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
}

// Reconciler works on a key when it is the turn of that key.
func (w *Workers) Reconciler(next reconcile.Func) reconcile.Func {
	return func(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
		if !w.begin(key) {
			return reconcile.Result{}, nil
		}
		defer w.end(key.Namespace)
		return next(ctx, key)
	}
}

// begin reports whether the key may be worked on now; if not, it waits.
func (w *Workers) begin(key reconcile.Request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.namespaces[key.Namespace]
	if of == nil {
		of = &turns{called: map[reconcile.Request]bool{}}
		w.namespaces[key.Namespace] = of
	}
	called, known := of.called[key]
	switch {
	case called:
		delete(of.called, key)
	case known:
		return false
	case of.taken < w.most || w.queue == nil:
		of.taken++
	default:
		of.waiting, of.called[key] = append(of.waiting, key), false
		return false
	}
	return true
}

// end calls the next key. Its worker stays taken for it, or a key that has just come would go before.
func (w *Workers) end(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.namespaces[namespace]
	if len(of.waiting) > 0 {
		next := of.waiting[0]
		of.waiting, of.called[next] = of.waiting[1:], true
		w.queue.Add(next)
		return
	}
	if of.taken--; of.taken == 0 {
		delete(w.namespaces, namespace)
	}
}
