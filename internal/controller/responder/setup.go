package responder

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
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
	"usher.sh/usher/internal/policycache"
)

// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictions;evictionrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictions/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups="",resources=namespaces;nodes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies,verbs=get;list;watch;patch

// Options says what the controller works with.
type Options struct {
	Gatherer *policycache.Gatherer
	Act      *act.Governed
}

type reconciler struct {
	Options
	client   client.Client
	events   events.EventRecorder
	attempts *attempts
	waiting  *waiting
	// What was said on pods, and on their nodes.
	podEvents, nodeEvents *eventDeduper
}

// workers are many because they wait for systems; a namespace has workersEach of them at most.
const workers, workersEach = 16, 2

// Controllers returns the responder of a cluster that serves eviction requests. Its keys are names of pods.
func Controllers(mgr ctrl.Manager, o Options) []wiring.Controller {
	s := &reconciler{
		Options: o, client: mgr.GetClient(), events: mgr.GetEventRecorder("usher-responder"),
		attempts: newAttempts(), waiting: newWaiting(), podEvents: newEventDeduper(), nodeEvents: newEventDeduper(),
	}
	return []wiring.Controller{{
		Name: "responder", Workers: workers, WorkersEach: workersEach, Reconcile: s.reconcile, Observed: s.judgedBy,
		Indexes: wiring.TargetPodIndexes(),
		Watches: []wiring.Watch{
			{Object: &api.EvictionRequest{}, Keys: wiring.PodOf},
			{Object: &api.Eviction{}, Keys: wiring.PodOf},
			{Object: &corev1.Pod{}, Keys: s.itselfAndPeers, When: wiring.PodChanged()},
			{Object: &v1alpha1.EvictionPolicy{}, Keys: s.judgedBy},
			{Object: &v1alpha1.EvictionPolicy{}, Keys: s.beside, When: wiring.Respecified()},
			{Object: &v1alpha1.NodeFence{}, Keys: s.onFenced, When: provesAnew()},
			{Object: &corev1.Node{}, Keys: s.on, When: unlocked()},
			{Object: &corev1.Namespace{}, Keys: s.released, When: relabelled()},
		},
	}}
}

// provesAnew passes fences from when they prove a node off, and when they do so no more.
func provesAnew() predicate.Predicate {
	proves := func(o client.Object) bool {
		fence, ok := o.(*v1alpha1.NodeFence)
		return ok && fence.Status.Taint != "" && !fence.Status.Over()
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return proves(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return proves(e.ObjectOld) != proves(e.ObjectNew) },
	}
}

// relabelled passes namespaces that are governed now, or no more.
func relabelled() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetLabels()[v1alpha1.GovernedLabel] != e.ObjectNew.GetLabels()[v1alpha1.GovernedLabel]
		},
	}
}

// released enqueues the pods of a namespace that no policy judges: as long as it is labelled, a label of theirs is believed.
func (s *reconciler) released(_ context.Context, namespace client.Object) []reconcile.Request {
	return s.waiting.of(namespace.GetName(), noPolicy)
}

// onFenced enqueues the pods of a fence's node: what is proven off is judged by other rules.
func (s *reconciler) onFenced(ctx context.Context, o client.Object) []reconcile.Request {
	fence, ok := o.(*v1alpha1.NodeFence)
	if !ok {
		return nil
	}
	return s.onNode(ctx, fence.Spec.NodeName)
}

// on enqueues the pods of a node whose labels or locks have changed: a waiter of a nodeLock goes by these.
func (s *reconciler) on(ctx context.Context, node client.Object) []reconcile.Request {
	return s.onNode(ctx, node.GetName())
}

// unlocked passes nodes that have fewer annotations, or other labels.
func unlocked() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
			for key := range before {
				if _, there := after[key]; !there {
					return true
				}
			}
			return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
		},
	}
}

func (s *reconciler) onNode(ctx context.Context, node string) []reconcile.Request {
	var keys []reconcile.Request
	for _, key := range s.waiting.all() {
		var pod corev1.Pod
		if err := s.client.Get(ctx, key.NamespacedName, &pod); err == nil && pod.Spec.NodeName == node {
			keys = append(keys, key)
		}
	}
	return keys
}

// judgedBy enqueues the pods that a policy judges: what is new of the policy or its system may let one of them go.
func (s *reconciler) judgedBy(_ context.Context, policy client.Object) []reconcile.Request {
	return s.waiting.of(policy.GetNamespace(), policy.GetName())
}

// beside enqueues all pods of a policy's namespace: another policy may judge them.
func (s *reconciler) beside(_ context.Context, policy client.Object) []reconcile.Request {
	return s.waiting.in(policy.GetNamespace())
}

// itselfAndPeers: an eviction waits for the end of its pod, and for the members beside it, also those that may always go and have no
// label: one member's leave above all may let another go. In a namespace without a policy none waits for another, and a drain wants many.
func (s *reconciler) itselfAndPeers(ctx context.Context, o client.Object) []reconcile.Request {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	policies, err := s.Gatherer.Policies.Policies(ctx, pod.Namespace)
	if err != nil {
		log.FromContext(ctx).Error(err, "an event reaches more pods than it concerns", "pod", pod.Name)
		return append(s.waiting.in(pod.Namespace), wiring.Itself(ctx, pod)...)
	}
	_, labelled := pod.Labels[v1alpha1.PolicyLabel]
	var keys []reconcile.Request
	if labelled || len(policies) > 0 && s.waiting.knows(client.ObjectKeyFromObject(pod)) {
		keys = wiring.Itself(ctx, pod)
	}
	if len(policies) == 0 {
		return keys
	}
	var concerned []string
	facts := policycache.Facts(pod)
	for _, policy := range policies {
		if declared := s.Gatherer.Policies.Declared(policy); declared.Governs(facts) || declared.Names(pod.Name) {
			concerned = append(concerned, policy.Name)
		}
	}
	return append(keys, s.waiting.of(pod.Namespace, concerned...)...)
}
