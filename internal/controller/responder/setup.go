package responder

import (
	"context"

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
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/policycache"
)

// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictions;evictionrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictions/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
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
	// What was said on pods, and on their nodes.
	podEvents, nodeEvents *eventDeduper
}

// workers are many because they wait for systems; a namespace has workersEach of them at most.
const workers, workersEach = 16, 2

// Controllers returns the responder of a cluster that serves eviction requests. Its keys are names of pods.
func Controllers(mgr ctrl.Manager, o Options) []wiring.Controller {
	s := &reconciler{
		Options: o, client: mgr.GetClient(), events: mgr.GetEventRecorder("usher-responder"),
		attempts: newAttempts(), podEvents: newEventDeduper(), nodeEvents: newEventDeduper(),
	}
	return []wiring.Controller{{
		Name: "responder", Workers: workers, WorkersEach: workersEach, Reconcile: s.reconcile, Observed: s.wantedOf,
		Indexes: wiring.TargetPodIndexes(),
		Watches: []wiring.Watch{
			{Object: &api.EvictionRequest{}, Keys: wiring.PodOf},
			{Object: &api.Eviction{}, Keys: wiring.PodOf},
			{Object: &corev1.Pod{}, Keys: s.itselfAndWanted, When: matters()},
			{Object: &v1alpha1.EvictionPolicy{}, Keys: s.wantedOf},
		},
	}}
}

// matters drops updates of pods that change nothing a verdict rests on.
func matters() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return !policycache.SamePod(e.ObjectOld, e.ObjectNew) }}
}

// itselfAndWanted: an eviction waits for the end of its pod, and for the members beside it, also those that may always go and have no
// label. In a namespace without a policy none waits for another, and a drain wants many.
func (s *reconciler) itselfAndWanted(ctx context.Context, pod client.Object) []reconcile.Request {
	if _, labelled := pod.GetLabels()[v1alpha1.PolicyLabel]; labelled {
		return append(s.wantedOf(ctx, pod), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
	}
	policies, err := s.Gatherer.Policies.All(ctx, pod.GetNamespace())
	if err == nil && len(policies) == 0 {
		return nil
	}
	return s.wantedOf(ctx, pod)
}

// wantedOf enqueues the pods of an object's namespace that are wanted gone: what is new of a policy, its system or a
// member, one member's leave above all, may let another go.
func (s *reconciler) wantedOf(ctx context.Context, o client.Object) []reconcile.Request {
	requests, err := targets.Requests(ctx, s.client, o.GetNamespace())
	if err != nil {
		log.FromContext(ctx).Error(err, "an event is lost")
	}
	var keys []reconcile.Request
	for _, request := range requests {
		keys = append(keys, wiring.PodOf(ctx, request)...)
	}
	return keys
}
