// Package wiring answers: which events make which controller reconcile what? It declares controllers as data, from which the manager runs
// them and the simulator of histories does: an event that a watch misses is missed in both.
package wiring

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/share"
)

// Controller is a queue of keys, what fills it and what is done with them.
type Controller struct {
	Name    string
	Watches []Watch
	// Observed maps a policy whose system says something new to keys; nil: none.
	Observed handler.MapFunc
	// Notified has events of what is no object of the API; each brings the object in it to Reconcile by its own key. Nil: none.
	Notified  <-chan event.GenericEvent
	Reconcile reconcile.Func
	// Indexes are those of the cache that it reads by.
	Indexes []Index
	// Workers is how many keys are reconciled at a time, WorkersEach how many of one namespace; 0: any number of these.
	Workers, WorkersEach int
}

// Watch is a kind of objects whose events fill a controller's queue.
type Watch struct {
	// Object is an empty object of the kind.
	Object client.Object
	// Keys maps an object to keys; of an update both the old object and the new one are mapped.
	Keys handler.MapFunc
	// When passes the events that matter; nil: all do.
	When predicate.Predicate
}

// Index is a field of the cache by which objects of a kind are found. What several controllers read by they declare alike.
type Index struct {
	Object client.Object
	Field  string
	Values client.IndexerFunc
}

// Itself maps an object to its own key.
func Itself(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
}

// Respecified drops updates that leave a policy's spec as it is. A watch that was broken shows a policy that is gone as one that has become
// another of its name.
func Respecified() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
	}}
}

// Gone passes deletions alone.
func Gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// PodChanged drops updates of pods that change nothing that is decided about governed ones.
func PodChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return !policycache.SamePod(e.ObjectOld, e.ObjectNew) }}
}

// Add adds controllers to a manager. What systems say anew comes from news; nil where no controller has Observed.
func Add(ctx context.Context, mgr ctrl.Manager, news *policycache.PolicyEvents, all ...Controller) error {
	for _, index := range Indexes(all) {
		if err := mgr.GetFieldIndexer().IndexField(ctx, index.Object, index.Field, index.Values); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", index.Object, index.Field, err)
		}
	}
	for i := range all {
		if err := add(mgr, news, &all[i]); err != nil {
			return fmt.Errorf("setting up controller %s: %w", all[i].Name, err)
		}
	}
	return nil
}

// Indexes returns what controllers read by, each once.
func Indexes(all []Controller) []Index {
	var found []Index
	for i := range all {
		for _, index := range all[i].Indexes {
			same := func(other Index) bool {
				return other.Field == index.Field && reflect.TypeOf(other.Object) == reflect.TypeOf(index.Object)
			}
			if !slices.ContainsFunc(found, same) {
				found = append(found, index)
			}
		}
	}
	return found
}

// What fails is tried again after retryFirst, and after twice as long each time, but at least once in retryAtMost: after an outage of minutes no event may
// come for long, and the library's own limit is a quarter of an hour.
const retryFirst, retryAtMost = 5 * time.Millisecond, 30 * time.Second

func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryAtMost)
}

func add(mgr ctrl.Manager, news *policycache.PolicyEvents, c *Controller) error {
	options, do := controller.Options{MaxConcurrentReconciles: c.Workers, RateLimiter: retries()}, c.Reconcile
	if c.WorkersEach > 0 {
		each := share.NewWorkers(c.WorkersEach)
		options.NewQueue, do = each.NewQueue, each.Reconciler(do)
	}
	b := ctrl.NewControllerManagedBy(mgr).Named(c.Name).WithOptions(options)
	for _, w := range c.Watches {
		var when []predicate.Predicate
		if w.When != nil {
			when = append(when, w.When)
		}
		b = b.Watches(w.Object, handler.EnqueueRequestsFromMapFunc(w.Keys), builder.WithPredicates(when...))
	}
	if c.Observed != nil {
		b = b.WatchesRawSource(news.Source(c.Observed))
	}
	if c.Notified != nil {
		b = b.WatchesRawSource(source.Channel(c.Notified, handler.EnqueueRequestsFromMapFunc(Itself)))
	}
	return b.Complete(do)
}
