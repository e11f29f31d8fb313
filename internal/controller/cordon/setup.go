// Package cordon answers: which pods that stay are to be emptied because their nodes are cordoned, and which no more?
//
// A policy's entry may say that what its pods carry leaves a node whenever that is cordoned (leaves: Load, emptyOn: Cordon), since `kubectl
// drain --ignore-daemonsets` asks for no DaemonSet's pod. For each such pod an EvictionRequest stands while its node is unschedulable. It is made
// as admission makes those of callers that it refuses: it goes with the policy, and has no pod evicted that no policy governs. Keys are pods.
package cordon

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/policycache"
)

// +kubebuilder:rbac:groups="",resources=nodes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictionrequests,verbs=get;list;watch;create;patch

// Options says what the controller works with.
type Options struct {
	Gatherer *policycache.Gatherer
	Act      *act.Governed
}

type reconciler struct {
	Options
	client client.Client
}

// Of the workers a namespace has workersEach at a time.
const workers, workersEach = 2, 1

// Controllers returns the controller of a cluster that serves eviction requests.
func Controllers(mgr ctrl.Manager, o Options) []wiring.Controller {
	r := &reconciler{Options: o, client: mgr.GetClient()}
	return []wiring.Controller{{
		Name: "cordon", Workers: workers, WorkersEach: workersEach, Reconcile: r.reconcile,
		Indexes: append(wiring.TargetPodIndexes(), wiring.GovernedNodeIndexes()...),
		Watches: []wiring.Watch{
			{Object: &corev1.Node{}, Keys: r.podsOn, When: cordonChanges()},
			{Object: &corev1.Pod{}, Keys: governed, When: membershipChanges()},
			{Object: &v1alpha1.EvictionPolicy{}, Keys: r.podsOf, When: wiring.Respecified()},
			{Object: &api.EvictionRequest{}, Keys: wiring.PodOf, When: ownRequest()},
		},
	}}
}

// cordonChanges passes nodes that are cordoned when they are first seen or go, and updates that cordon a node or take that back.
func cordonChanges() predicate.Predicate {
	cordoned := func(o client.Object) bool {
		node, ok := o.(*corev1.Node)
		return ok && node.Spec.Unschedulable
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return cordoned(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return cordoned(e.ObjectOld) != cordoned(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return cordoned(e.Object) },
	}
}

// membershipChanges passes pods when they are first seen, and updates after which other entries may claim them, or another node is theirs.
func membershipChanges() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.Pod)
			after, known := e.ObjectNew.(*corev1.Pod)
			return !ok || !known || before.UID != after.UID || before.Spec.NodeName != after.Spec.NodeName || !maps.Equal(before.Labels, after.Labels)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// governed is asked for what a pod was before as well.
func governed(ctx context.Context, o client.Object) []reconcile.Request {
	if len(wiring.NodeOfGoverned(o)) == 0 {
		return nil
	}
	return wiring.Itself(ctx, o)
}

// ownRequest passes what is requested for cordons.
func ownRequest() predicate.Predicate {
	own := evictionrequest.Requester(eviction.CordonUser)
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		request, ok := o.(*api.EvictionRequest)
		return ok && request.Spec.Requester == own
	})
}

func (r *reconciler) podsOn(ctx context.Context, node client.Object) []reconcile.Request {
	return r.pods(ctx, client.MatchingFields{wiring.GovernedNode: node.GetName()})
}

func (r *reconciler) podsOf(ctx context.Context, policy client.Object) []reconcile.Request {
	return r.pods(ctx, client.InNamespace(policy.GetNamespace()), client.HasLabels{v1alpha1.PolicyLabel})
}

func (r *reconciler) pods(ctx context.Context, which ...client.ListOption) []reconcile.Request {
	var list corev1.PodList
	if err := r.client.List(ctx, &list, append(which, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "an event is lost")
	}
	keys := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		keys[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}
	return keys
}
