package share

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Workers gives each namespace so many of a controller's workers at a time. A key beyond that takes none: it waits until one of
// its namespace is free, which is when a key before it is done, and keys of a namespace have their turn in the order in which
// they came; what others wait for comes back with the highest priority among theirs. The controller must have both NewQueue and
// Reconciler: without a queue, to which a key could go back, none waits.
type Workers struct {
	most int

	mu         sync.Mutex
	queue      workqueue.TypedRateLimitingInterface[reconcile.Request]
	namespaces map[string]*turns
	priorities map[reconcile.Request]int // with which the keys came that are handed out
}

// turns are those of one namespace.
type turns struct {
	taken   int // by keys that are worked on or were called
	waiting []reconcile.Request
	called  []reconcile.Request         // those that are queued, each with a worker that stays taken for it
	known   map[reconcile.Request]*turn // of those that wait, and of those that were called
	ranks   map[int]int                 // how many wait with each priority
}

type turn struct {
	called   bool
	priority int // with which the key came, or was called
}

// NewWorkers returns Workers of which each namespace may have most at a time, at least 1.
func NewWorkers(most int) *Workers {
	return &Workers{most: max(most, 1), namespaces: map[string]*turns{}, priorities: map[reconcile.Request]int{}}
}

// NewQueue makes the controller's queue, to which keys go back when their turn has come.
func (w *Workers) NewQueue(controller string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	inner := priorityqueue.New(controller, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter })
	w.Into(inner)
	return &queue{PriorityQueue: inner, workers: w}
}

// Into has keys go back to this queue; NewQueue does that where the controller makes its queue.
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
		of = &turns{known: map[reconcile.Request]*turn{}, ranks: map[int]int{}}
		w.namespaces[key.Namespace] = of
	}
	its, priority := of.known[key], w.priorities[key]
	switch {
	case its != nil && its.called:
		delete(of.known, key)
		of.called = slices.DeleteFunc(of.called, func(called reconcile.Request) bool { return called == key })
		return true
	case its != nil:
		of.rank(its.priority, -1)
		its.priority = max(its.priority, priority)
		of.rank(its.priority, 1)
	case of.taken < w.most || w.queue == nil:
		of.taken++
		return true
	default:
		of.waiting, of.known[key] = append(of.waiting, key), &turn{priority: priority}
		of.rank(priority, 1)
	}
	w.hasten(of, priority)
	return false
}

// hasten calls anew, with the priority of a key that waits for them, those that were called with a lower one: keys of other
// namespaces would go before them for as long as some come, and the key waits for as long.
func (w *Workers) hasten(of *turns, priority int) {
	for _, key := range of.called {
		if its := of.known[key]; its.priority < priority {
			its.priority = priority
			w.call(key, priority)
		}
	}
}

// end calls the next key. Its worker stays taken for it, or a key that has just come would go before.
func (w *Workers) end(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.namespaces[namespace]
	if len(of.waiting) > 0 {
		w.call(of.next())
		return
	}
	if of.taken--; of.taken == 0 {
		delete(w.namespaces, namespace)
	}
}

// next takes the key whose turn it is from those that wait. It is called with the highest priority among them: all wait for it.
func (t *turns) next() (key reconcile.Request, priority int) {
	key, priority = t.waiting[0], slices.Max(slices.Collect(maps.Keys(t.ranks)))
	t.rank(t.known[key].priority, -1)
	t.waiting, t.called, t.known[key] = t.waiting[1:], append(t.called, key), &turn{called: true, priority: priority}
	return key, priority
}

// rank counts keys that wait with a priority: to look for the highest among thousands of them would cost each its part.
func (t *turns) rank(priority, by int) {
	if t.ranks[priority] += by; t.ranks[priority] == 0 {
		delete(t.ranks, priority)
	}
}

// call adds a key. With a higher priority than that of any key of its namespace, the first list of a namespace that has to wait
// would go before those of others.
func (w *Workers) call(key reconcile.Request, priority int) {
	if ranked, ok := w.queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		ranked.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, key)
		return
	}
	w.queue.Add(key)
}

// waits reports whether the key has not had its turn.
func (w *Workers) waits(key reconcile.Request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.namespaces[key.Namespace]
	return of != nil && of.known[key] != nil
}

func (w *Workers) came(key reconcile.Request, priority int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.priorities[key] = priority
}

func (w *Workers) left(key reconcile.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.priorities, key)
}

// queue is a controller's, with what its keys would lose by waiting: the priority with which they came and how often they
// have failed.
type queue struct {
	priorityqueue.PriorityQueue[reconcile.Request]

	workers *Workers
}

func (q *queue) GetWithPriority() (key reconcile.Request, priority int, shutdown bool) {
	key, priority, shutdown = q.PriorityQueue.GetWithPriority()
	if !shutdown {
		q.workers.came(key, priority)
	}
	return key, priority, shutdown
}

// Forget passes over keys that wait: to the controller, a key that was not worked on has succeeded.
func (q *queue) Forget(key reconcile.Request) {
	if !q.workers.waits(key) {
		q.PriorityQueue.Forget(key)
	}
}

func (q *queue) Done(key reconcile.Request) {
	q.workers.left(key)
	q.PriorityQueue.Done(key)
}
