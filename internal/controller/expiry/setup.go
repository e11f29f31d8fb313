package expiry

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/share"
)

// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictionrequests,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods;nodes,verbs=get;list;watch

// Options says what the controller works with.
type Options struct {
	// Now is the apiserver's clock, by which drains date their signs of life.
	Now func() time.Time
}

type shell struct {
	Options
	client client.Client
	live   client.Reader
}

// Of the workers a namespace has workersEach at a time.
const workers, workersEach = 2, 1

// drainIndex finds nodes by the id of the drain whose record they carry.
const drainIndex = "expiry:drain"

// Setup adds the controller to a manager whose cluster serves eviction requests. The cache must keep the annotation of
// drains on nodes.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Node{}, drainIndex, drainOf); err != nil {
		return fmt.Errorf("indexing nodes by their drain: %w", err)
	}
	s := &shell{Options: o, client: mgr.GetClient(), live: mgr.GetAPIReader()}
	each := share.NewWorkers(workersEach)
	err := ctrl.NewControllerManagedBy(mgr).Named("expiry").
		For(&api.EvictionRequest{}, builder.WithPredicates(ofDrains())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: each.NewQueue}).
		Complete(each.Reconciler(s.reconcile))
	if err != nil {
		return fmt.Errorf("setting up the expiry controller: %w", err)
	}
	return nil
}

func drainOf(o client.Object) []string {
	node, ok := o.(*corev1.Node)
	if !ok {
		return nil
	}
	if record := observe.NodeFacts(node).Drain; record != nil {
		return []string{record.ID}
	}
	return nil
}

func ofDrains() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		request, ok := o.(*api.EvictionRequest)
		if !ok {
			return false
		}
		_, drains := observe.RequestFacts(request).Drainer()
		return drains
	})
}
