// Package evictionrequest answers: who turns eviction requests into evictions, and takes these from one responder to
// the next? It reads caches, lets internal/lifecycle decide, and applies the result.
//
// Three queues, because their work has nothing to do with each other: requests (their status, and new evictions),
// evictions (their status), and the evictions' labels and owners.
//
// Only one such controller may run in a cluster. Where another one is seen at work, ours stands down; how it is seen is
// said at lifecycle.FindOther. The cache must therefore keep lifecycle.StatusSigns of Evictions.
package evictionrequest

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/internal/lifecycle"
	"usher.sh/usher/internal/share"
)

// Options says what the controller works with.
type Options struct {
	// Version is the group and version that lifecycle.Discover of api/lifecycle found; the manager's scheme must have
	// the kinds registered under it.
	Version schema.GroupVersion
	// Governed says which pods get Usher's responder whatever their spec says.
	Governed func(*corev1.Pod) bool
	// Alone says that no other evictionrequest-controller is in the cluster: none is looked for.
	Alone bool
	// Now is the apiserver's time, by which other controllers' writes are dated.
	Now func() time.Time
}

// podIndex finds requests and evictions by the name of the pod that they target, within a namespace.
const podIndex = "spec.target.pod.name"

// Of each controller's workers a namespace has only some at a time. Labels are never urgent, and have fewer.
const (
	workers, workersEach          = 5, 2
	metadataWorkers, metadataEach = 2, 1
)

const eventName = "usher-evictionrequest"

// Setup adds the controller to a manager.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := index(ctx, mgr); err != nil {
		return err
	}
	alone := o.Alone || o.Version == lifecycleapi.Usher // Usher's own API has no other controller
	s := &shell{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), options: o,
		endings: newEndings(), others: newOthers(mgr.GetLogger(), mgr.GetEventRecorder(eventName), alone),
	}
	for _, add := range []func(ctrl.Manager, *shell) error{addRequests, addEvictions, addMetadata} {
		if err := add(mgr, s); err != nil {
			return fmt.Errorf("setting up the evictionrequest controller: %w", err)
		}
	}
	return nil
}

func index(ctx context.Context, mgr ctrl.Manager) error {
	byPod := func(o client.Object) []string {
		if ref, ok := lifecycle.RefOf(o); ok {
			return []string{ref.Name}
		}
		return nil
	}
	for _, kind := range []client.Object{&api.EvictionRequest{}, &api.Eviction{}} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, kind, podIndex, byPod); err != nil {
			return fmt.Errorf("indexing eviction objects by pod: %w", err)
		}
	}
	return nil
}

func addRequests(mgr ctrl.Manager, s *shell) error {
	each := share.NewWorkers(workersEach)
	return ctrl.NewControllerManagedBy(mgr).Named("evictionrequest").
		For(&api.EvictionRequest{}).
		Watches(&api.Eviction{}, s.samePod(s.requestKeys)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: each.NewQueue}).
		Complete(each.Reconciler(s.reconcileRequest))
}

func addEvictions(mgr ctrl.Manager, s *shell) error {
	each := share.NewWorkers(workersEach)
	return ctrl.NewControllerManagedBy(mgr).Named("eviction").
		For(&api.Eviction{}, builder.WithPredicates(s.witness())).
		Watches(&api.EvictionRequest{}, s.samePod(s.evictionKeys)).
		Watches(&corev1.Pod{}, s.endOfPods()).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: each.NewQueue}).
		Complete(each.Reconciler(s.reconcileEviction))
}

func addMetadata(mgr ctrl.Manager, s *shell) error {
	each := share.NewWorkers(metadataEach)
	return ctrl.NewControllerManagedBy(mgr).Named("eviction-metadata").
		For(&api.Eviction{}).
		Watches(&api.EvictionRequest{}, s.samePod(s.evictionKeys)).
		WithOptions(controller.Options{MaxConcurrentReconciles: metadataWorkers, NewQueue: each.NewQueue}).
		Complete(each.Reconciler(s.reconcileMetadata))
}

// witness lets everything through and looks for another controller's hand in it.
func (s *shell) witness() predicate.Predicate {
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

// samePod enqueues what targets the same pod as the object of an event.
func (s *shell) samePod(keys func(context.Context, string, string) []reconcile.Request) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		ref, ok := lifecycle.RefOf(o)
		if !ok {
			return nil
		}
		return keys(ctx, ref.Namespace, ref.Name)
	})
}
