package responder

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/governed"
	"usher.sh/usher/internal/lifecycle"
	"usher.sh/usher/internal/share"
)

// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictions;evictionrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictions/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies,verbs=get;list;watch;patch

// Options says what the controller works with.
type Options struct {
	Gatherer *governed.Gatherer
	Act      *act.Governed
	// News are what systems say anew; nil where only the clock tells.
	News *governed.News
	// Workers shares the controller's workers out; nil: WorkersEach to a namespace.
	Workers *share.Workers
}

type shell struct {
	Options
	client   client.Client
	events   events.EventRecorder
	attempts *attempts
	// What was said on pods, and on their nodes.
	told, toldNodes *told
}

// workers are many because they wait for systems; a namespace has WorkersEach of them at most.
const (
	workers     = 16
	WorkersEach = 2
)

// podIndex finds requests and evictions by the name of their pod, within a namespace. Its own name keeps it apart from the indexes
// of other controllers that share the cache.
const podIndex = "responder:spec.target.pod.name"

// Setup adds the controller to a manager whose cluster serves eviction requests. Its keys are names of pods.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	for _, kind := range []client.Object{&api.EvictionRequest{}, &api.Eviction{}} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, kind, podIndex, podName); err != nil {
			return fmt.Errorf("indexing eviction objects by pod: %w", err)
		}
	}
	s := &shell{
		Options: o, client: mgr.GetClient(), events: mgr.GetEventRecorder("usher-responder"),
		attempts: newAttempts(), told: newTold(), toldNodes: newTold(),
	}
	each := cmp.Or(o.Workers, share.NewWorkers(WorkersEach))
	all := ctrl.NewControllerManagedBy(mgr).Named("responder").
		Watches(&api.EvictionRequest{}, handler.EnqueueRequestsFromMapFunc(podOf)).
		Watches(&api.Eviction{}, handler.EnqueueRequestsFromMapFunc(podOf)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(s.itselfAndWanted), builder.WithPredicates(onlyGoverned(), matters())).
		Watches(&v1alpha1.EvictionPolicy{}, handler.EnqueueRequestsFromMapFunc(s.wantedOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: each.NewQueue})
	if o.News != nil {
		all = all.WatchesRawSource(o.News.Source(s.wantedOf))
	}
	if err := all.Complete(each.Reconciler(s.reconcile)); err != nil {
		return fmt.Errorf("setting up the responder: %w", err)
	}
	return nil
}

func podName(o client.Object) []string {
	if ref, ok := lifecycle.RefOf(o); ok {
		return []string{ref.Name}
	}
	return nil
}

func podOf(_ context.Context, o client.Object) []reconcile.Request {
	if ref, ok := lifecycle.RefOf(o); ok {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}}}
	}
	return nil
}

// onlyGoverned leaves out the pods of namespaces that have nothing to do with Usher, which are most.
func onlyGoverned() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		_, labelled := o.GetLabels()[v1alpha1.PolicyLabel]
		return labelled
	})
}

// matters drops updates of pods that change nothing a verdict rests on.
func matters() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return !governed.SamePod(e.ObjectOld, e.ObjectNew) }}
}

// itselfAndWanted: an eviction waits for the end of its pod, and for the members beside it.
func (s *shell) itselfAndWanted(ctx context.Context, pod client.Object) []reconcile.Request {
	return append(s.wantedOf(ctx, pod), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
}

// wantedOf enqueues the pods of an object's namespace that somebody wants gone: what is new of a policy, its system or a
// member, one member's leave above all, may let another go.
func (s *shell) wantedOf(ctx context.Context, o client.Object) []reconcile.Request {
	requests, err := s.requests(ctx, client.InNamespace(o.GetNamespace()))
	if err != nil {
		log.FromContext(ctx).Error(err, "an event is lost")
	}
	var keys []reconcile.Request
	for _, request := range requests {
		keys = append(keys, podOf(ctx, request)...)
	}
	return keys
}
