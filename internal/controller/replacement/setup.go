package replacement

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
)

// What it may do besides needs the optional role usher-replacements: without that it says what is missing.
// +kubebuilder:rbac:groups=usher.sh,resources=replacementrequests,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=usher.sh,resources=replacementrequests/status,verbs=patch
// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies/status,verbs=patch
// +kubebuilder:rbac:groups=usher.sh,resources=nodefences;membersets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options says what the controllers work with.
type Options struct {
	Act *act.Replacements
	// Governed writes what a policy's status says of its members.
	Governed *act.Governed
	// Targets are the objects whose patch has an operator make a successor.
	Targets  *act.Targets
	Gatherer *policycache.Gatherer
	// Self is who the manager is to the apiserver.
	Self string
	Now  func() time.Time
}

type reconciler struct {
	Options
	client client.Client
	live   client.Reader
	events events.EventRecorder
	known  knowledge
}

// workers are many because some wait for systems; a namespace has workersEach of them at most.
const workers, workersEach = 8, 2

// Controllers returns the controllers of requests, and of what policies say of them.
func Controllers(mgr ctrl.Manager, o Options) []wiring.Controller {
	r := &reconciler{Options: o, client: mgr.GetClient(), live: mgr.GetAPIReader(), events: mgr.GetEventRecorder("usher-replacement")}
	return []wiring.Controller{
		{
			Name: "replacement", Workers: workers, WorkersEach: workersEach, Reconcile: r.reconcile, Observed: r.requestsOfPolicy,
			Watches: []wiring.Watch{
				{Object: &v1alpha1.ReplacementRequest{}, Keys: wiring.Itself, When: asksAnew()},
				{Object: &v1alpha1.EvictionPolicy{}, Keys: r.requestsOfPolicy, When: permitsChange()},
				{Object: &corev1.Pod{}, Keys: r.requestsOfPod, When: wiring.PodChanged()},
				{Object: &corev1.Node{}, Keys: r.requestsOnNode, When: nodeMatters()},
				{Object: &v1alpha1.NodeFence{}, Keys: r.requestsOfFence},
				{Object: &v1alpha1.MemberSet{}, Keys: r.requestsOfPolicy}, // whose policy has its name
			},
		},
		{
			Name: "replacing", Workers: 1, Reconcile: r.prune,
			Watches: []wiring.Watch{
				{Object: &v1alpha1.EvictionPolicy{}, Keys: wiring.Itself, When: replaces()},
				{Object: &v1alpha1.ReplacementRequest{}, Keys: policyOf, When: ends()},
			},
		},
	}
}

// asksAnew drops what the controller itself writes into a request's status: that must not wake it.
func asksAnew() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil) ||
			len(e.ObjectOld.GetFinalizers()) != len(e.ObjectNew.GetFinalizers()) || e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration()
	}}
}

// permitsChange passes updates of policies on which a replacement may be waiting.
func permitsChange() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.EvictionPolicy)
		after, known := e.ObjectNew.(*v1alpha1.EvictionPolicy)
		return !ok || !known || before.Generation != after.Generation || before.UID != after.UID || before.Status.Epoch != after.Status.Epoch
	}}
}

// nodeMatters drops updates of nodes that say nothing new of whether their kubelets report.
func nodeMatters() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, known := e.ObjectNew.(*corev1.Node)
		if !ok || !known {
			return true
		}
		was, is := observe.LostNodeFacts(before), observe.LostNodeFacts(after)
		return was.UID != is.UID || was.Ready != is.Ready || was.BootID != is.BootID || !was.Since.Equal(is.Since)
	}}
}

// replaces passes policies that say that a member is being replaced.
func replaces() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		policy, ok := o.(*v1alpha1.EvictionPolicy)
		return ok && len(policy.Status.Replacing) > 0
	})
}

// ends passes what ends a request: that it is gone, and that nothing is to be done for it any more, which another finalizer may keep.
func ends() predicate.Predicate {
	return predicate.Or(wiring.Gone(), predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*v1alpha1.ReplacementRequest)
			after, known := e.ObjectNew.(*v1alpha1.ReplacementRequest)
			return ok && known && ended(after) && (!ended(before) || before.UID != after.UID)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	})
}

func policyOf(_ context.Context, o client.Object) []reconcile.Request {
	request, ok := o.(*v1alpha1.ReplacementRequest)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: request.Namespace, Name: request.Spec.Source.Name}}}
}

func (r *reconciler) requestsOfPolicy(ctx context.Context, policy client.Object) []reconcile.Request {
	return r.requestsWhere(ctx, policy.GetNamespace(), func(q *v1alpha1.ReplacementRequest) bool { return q.Spec.Source.Name == policy.GetName() })
}

// requestsOfPod returns the open requests for members that have the pod's name, or of which it is not known yet. What other members do
// comes with what their system says.
func (r *reconciler) requestsOfPod(ctx context.Context, pod client.Object) []reconcile.Request {
	return r.requestsWhere(ctx, pod.GetNamespace(), func(q *v1alpha1.ReplacementRequest) bool {
		return q.Status.PodName == "" || q.Status.PodName == pod.GetName()
	})
}

func (r *reconciler) requestsOnNode(ctx context.Context, node client.Object) []reconcile.Request {
	return r.requestsWhere(ctx, "", func(q *v1alpha1.ReplacementRequest) bool { return isOn(q, node.GetName()) })
}

func (r *reconciler) requestsOfFence(ctx context.Context, o client.Object) []reconcile.Request {
	fence, ok := o.(*v1alpha1.NodeFence)
	if !ok {
		return nil
	}
	return r.requestsWhere(ctx, "", func(q *v1alpha1.ReplacementRequest) bool { return isOn(q, fence.Spec.NodeName) })
}

// isOn reports whether the member of a request was on a node, or it is not known yet where it was.
func isOn(request *v1alpha1.ReplacementRequest, node string) bool {
	for i := range request.Status.Places {
		if request.Status.Places[i].Node == node {
			return true
		}
	}
	return len(request.Status.Places) == 0
}

// requestsWhere returns the keys of requests of a namespace, or of all (""), that are not over. There are few.
func (r *reconciler) requestsWhere(ctx context.Context, namespace string, is func(*v1alpha1.ReplacementRequest) bool) []reconcile.Request {
	var requests v1alpha1.ReplacementRequestList
	if err := r.client.List(ctx, &requests, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "an event wakes no replacement")
		return nil
	}
	var keys []reconcile.Request
	for i := range requests.Items {
		if q := &requests.Items[i]; !q.Status.Over() && is(q) {
			keys = append(keys, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(q)})
		}
	}
	return keys
}
