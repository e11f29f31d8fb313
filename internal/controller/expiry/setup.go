package expiry

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictionrequests,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods;nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=kube-public,resources=leases,verbs=get

// Options says what the controller works with.
type Options struct {
	// Now is the apiserver's clock, by which drains date their signs of life.
	Now func() time.Time
	Act *act.Governed
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

// requesterIndex finds requests by the id of the drain that has made them.
const requesterIndex = "expiry:requester"

// Controllers returns the controller of a cluster that serves eviction requests. The cache must keep the annotation of
// drains on nodes.
func Controllers(mgr ctrl.Manager, o Options) []wiring.Controller {
	s := &reconciler{Options: o, client: mgr.GetClient(), live: mgr.GetAPIReader()}
	return []wiring.Controller{{
		Name: "expiry", Workers: workers, WorkersEach: workersEach, Reconcile: s.reconcile,
		Indexes: append(wiring.TargetPodIndexes(), wiring.Index{Object: &corev1.Node{}, Field: drainIndex, Values: drainOf},
			wiring.Index{Object: &api.EvictionRequest{}, Field: requesterIndex, Values: requesterDrain}),
		Watches: []wiring.Watch{
			{Object: &api.EvictionRequest{}, Keys: wiring.Itself, When: expire()},
			{Object: &corev1.Pod{}, Keys: s.requestsOf, When: losesOwner()},
			{Object: &corev1.Node{}, Keys: s.requestsOn, When: givenBack()},
		},
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

func requesterDrain(o client.Object) []string {
	request, ok := o.(*api.EvictionRequest)
	if !ok {
		return nil
	}
	if who, drains := observe.RequestFacts(request).Drainer(); drains {
		return []string{who.ID}
	}
	return nil
}

// givenBack passes nodes that a drain had drained, and that are so no more.
func givenBack() predicate.Predicate {
	kept := func(o client.Object) bool {
		node, ok := o.(*corev1.Node)
		if !ok || !node.Spec.Unschedulable || node.Annotations[snapshot.DrainAnnotation] == "" {
			return false
		}
		facts := observe.NodeFacts(node)
		return facts.Drain != nil && facts.KeptDrained(facts.Drain.ID)
	}
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // requests are looked at when they are first seen
		UpdateFunc: func(e event.UpdateEvent) bool {
			return kept(e.ObjectOld) && (!kept(e.ObjectNew) || drainOf(e.ObjectOld)[0] != drainOf(e.ObjectNew)[0])
		},
		DeleteFunc:  func(e event.DeleteEvent) bool { return kept(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// requestsOn enqueues what the drain asked for whose record a node carries.
func (s *reconciler) requestsOn(ctx context.Context, node client.Object) []reconcile.Request {
	var keys []reconcile.Request
	for _, drain := range drainOf(node) {
		var list api.EvictionRequestList
		if err := s.client.List(ctx, &list, client.MatchingFields{requesterIndex: drain}, client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "an event is lost")
			continue
		}
		for i := range list.Items {
			keys = append(keys, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return keys
}

// expire passes requests that may end without their maker.
func expire() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		request, ok := o.(*api.EvictionRequest)
		if !ok {
			return false
		}
		_, admitted := evictionrequest.LastRequestTime(request)
		_, drains := observe.RequestFacts(request).Drainer()
		return admitted || drains
	})
}

// losesOwner passes pods that their controller does not own any more.
func losesOwner() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false }, // its requests are looked at when they are first seen
		UpdateFunc:  func(e event.UpdateEvent) bool { return owned(e.ObjectOld) && !owned(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func owned(pod client.Object) bool { return metav1.GetControllerOfNoCopy(pod) != nil }

// requestsOf enqueues the requests of a pod.
func (s *reconciler) requestsOf(ctx context.Context, pod client.Object) []reconcile.Request {
	all, err := targets.WantedOf(ctx, s.client, client.ObjectKeyFromObject(pod))
	if err != nil {
		log.FromContext(ctx).Error(err, "an event is lost")
	}
	keys := make([]reconcile.Request, len(all))
	for i, request := range all {
		keys[i].NamespacedName = client.ObjectKeyFromObject(request)
	}
	return keys
}
