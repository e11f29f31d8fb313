package expiry

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/observe"
)

// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictionrequests,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods;nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=kube-public,resources=leases,verbs=get

// Options says what the controller works with.
type Options struct {
	// Now is the apiserver's clock, by which drains date their signs of life.
	Now func() time.Time
}

type reconciler struct {
	Options
	client client.Client
	live   client.Reader
}

// Of the workers a namespace has workersEach at a time.
const workers, workersEach = 2, 1

// drainIndex finds nodes by the id of the drain whose record they carry.
const drainIndex = "expiry:drain"

// Controllers returns the controller of a cluster that serves eviction requests. The cache must keep the annotation of
// drains on nodes.
func Controllers(mgr ctrl.Manager, o Options) []wiring.Controller {
	s := &reconciler{Options: o, client: mgr.GetClient(), live: mgr.GetAPIReader()}
	return []wiring.Controller{{
		Name: "expiry", Workers: workers, WorkersEach: workersEach, Reconcile: s.reconcile,
		Indexes: []wiring.Index{{Object: &corev1.Node{}, Field: drainIndex, Values: drainOf}},
		Watches: []wiring.Watch{{Object: &api.EvictionRequest{}, Keys: wiring.Itself, When: ofDrains()}},
	}}
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
