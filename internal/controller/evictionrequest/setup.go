// Package evictionrequest answers: what turns eviction requests into evictions, and takes these from one responder to
// the next? It reads caches, lets internal/evictionrequest decide, and applies the result.
//
// Three queues, because their work has nothing to do with each other: requests (their status, and new evictions),
// evictions (their status), and the evictions' labels and owners.
//
// Only one such controller may run in a cluster. Where another one is seen at work, this one stands down; how it is seen is
// said at evictionrequest.FindOther. The cache must therefore keep evictionrequest.StatusSigns of Evictions.
package evictionrequest

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/evictionrequest"
)

// Options says what the controller works with.
type Options struct {
	// Version is the group and version that evictionrequest.Discover of api/lifecycle found; the manager's scheme must have
	// the kinds registered under it.
	Version schema.GroupVersion
	// Governed says which pods get Usher's responder whatever their spec says.
	Governed func(*corev1.Pod) bool
	// Alone says that no other evictionrequest-controller is in the cluster: none is looked for.
	Alone bool
	// Now is the apiserver's time, by which other controllers' writes are dated.
	Now func() time.Time
}

// Of each controller's workers a namespace has only some at a time. Labels are never urgent, and have fewer.
const (
	workers, workersEach          = 5, 2
	metadataWorkers, metadataEach = 2, 1
)

const eventName = "usher-evictionrequest"

// Controllers returns the three controllers.
func Controllers(mgr ctrl.Manager, o Options) []wiring.Controller {
	alone := o.Alone || o.Version == lifecycleapi.Usher // Usher's own API has no other controller
	s := &reconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), options: o,
		endings: newEndings(), others: newOthers(mgr.GetLogger(), mgr.GetEventRecorder(eventName), alone),
		made: newMade(),
	}
	return []wiring.Controller{
		{
			Name: "evictionrequest", Workers: workers, WorkersEach: workersEach, Reconcile: s.reconcileRequest, Indexes: wiring.TargetPodIndexes(),
			Watches: []wiring.Watch{
				{Object: &api.EvictionRequest{}, Keys: wiring.Itself},
				{Object: &api.Eviction{}, Keys: samePod(s.requestKeys)},
				{Object: &corev1.Pod{}, Keys: s.requestsOfEnded, When: ends()},
			},
		},
		{
			Name: "eviction", Workers: workers, WorkersEach: workersEach, Reconcile: s.reconcileEviction, Indexes: wiring.TargetPodIndexes(),
			Watches: []wiring.Watch{
				{Object: &api.Eviction{}, Keys: wiring.Itself, When: s.witness()},
				{Object: &api.EvictionRequest{}, Keys: samePod(s.evictionKeys)},
				{Object: &corev1.Pod{}, Keys: s.evictionsOfEnded, When: ends()},
			},
		},
		{
			Name: "eviction-metadata", Workers: metadataWorkers, WorkersEach: metadataEach, Reconcile: s.reconcileMetadata, Indexes: wiring.TargetPodIndexes(),
			Watches: []wiring.Watch{
				{Object: &api.Eviction{}, Keys: wiring.Itself},
				{Object: &api.EvictionRequest{}, Keys: samePod(s.evictionKeys)},
			},
		},
	}
}

// witness lets everything through and looks for another controller's hand in it.
func (s *reconciler) witness() predicate.Predicate {
	see := func(o client.Object) bool {
		if eviction, ok := o.(*api.Eviction); ok {
			s.others.see(eviction, s.options.Now())
		}
		return true
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return see(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return see(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool {
			s.others.forget(e.Object)
			return true
		},
	}
}

// samePod maps an object to what targets the same pod.
func samePod(keys func(context.Context, string, string) []reconcile.Request) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		ref, ok := evictionrequest.RefOf(o)
		if !ok {
			return nil
		}
		return keys(ctx, ref.Namespace, ref.Name)
	}
}
