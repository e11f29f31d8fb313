package policy

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
	"usher.sh/usher/internal/share"
)

// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictionrequests,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options says what the controller works with.
type Options struct {
	Gatherer *governed.Gatherer
	Act      *act.Governed
	// Requests says that the cluster serves eviction requests.
	Requests bool
	// News are what systems say anew; nil where only the clock tells.
	News *governed.News
	// Workers shares the controller's workers out; nil: WorkersEach to a namespace.
	Workers *share.Workers
}

type shell struct {
	Options
	client client.Client
	live   client.Reader
	events events.EventRecorder
	graves *graves
	// What the two controllers remember.
	absences *since[absence]          // policies that labels name and that are missing
	unneeded *since[client.ObjectKey] // policies whose finalizer is not needed
	refusals *refusals
	pace     *pace
}

// workers are many because some wait for the apiserver; a namespace has WorkersEach of them at most.
const (
	workers     = 16
	WorkersEach = 2
)

// Setup adds the controllers of policies and of labels to a manager.
func Setup(mgr ctrl.Manager, o Options) error {
	s := &shell{
		Options: o, client: mgr.GetClient(), live: mgr.GetAPIReader(), events: mgr.GetEventRecorder("usher-policy"),
		graves: newGraves(), absences: newSince[absence](), unneeded: newSince[client.ObjectKey](), refusals: newRefusals(), pace: newPace(),
	}
	each := cmp.Or(o.Workers, share.NewWorkers(WorkersEach))
	policies := ctrl.NewControllerManagedBy(mgr).Named("policy").
		For(&v1alpha1.EvictionPolicy{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(s.policiesOf), builder.WithPredicates(matters())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: each.NewQueue})
	if o.Requests {
		policies = policies.Watches(&api.EvictionRequest{}, handler.EnqueueRequestsFromMapFunc(s.policiesOf))
	}
	if o.News != nil {
		policies = policies.WatchesRawSource(o.News.Source(itself))
	}
	if err := policies.Complete(each.Reconciler(s.reconcile)); err != nil {
		return fmt.Errorf("setting up the policy controller: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("labels").
		For(&corev1.Namespace{}).
		Watches(&v1alpha1.EvictionPolicy{}, handler.EnqueueRequestsFromMapFunc(namespaceOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(s.namespaceOfPod), builder.WithPredicates(matters())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}). // a namespace is one key, so one that is big keeps one
		Complete(reconcile.Func(s.reconcileLabels))
	if err != nil {
		return fmt.Errorf("setting up the controller of labels: %w", err)
	}
	return nil
}

// policiesOf enqueues the policies of an object's namespace.
func (s *shell) policiesOf(ctx context.Context, o client.Object) []reconcile.Request {
	policies, err := s.Gatherer.Book.All(ctx, o.GetNamespace())
	if err != nil {
		log.FromContext(ctx).Error(err, "an event is lost")
	}
	requests := make([]reconcile.Request, len(policies))
	for i, policy := range policies {
		requests[i].NamespacedName = client.ObjectKeyFromObject(policy)
	}
	return requests
}

func itself(_ context.Context, policy client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(policy)}}
}

func namespaceOf(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.GetNamespace()}}}
}

// namespaceOfPod passes over the pods of namespaces that have no policy, unless they still say that they are governed or audited.
func (s *shell) namespaceOfPod(ctx context.Context, pod client.Object) []reconcile.Request {
	_, labelled := pod.GetLabels()[v1alpha1.PolicyLabel]
	_, audited := pod.GetLabels()[v1alpha1.AuditLabel]
	if labelled || audited || len(s.policiesOf(ctx, pod)) > 0 {
		return namespaceOf(ctx, pod)
	}
	return nil
}

// matters drops updates of pods that change nothing a status or a label rests on.
func matters() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !governed.SamePod(e.ObjectOld, e.ObjectNew)
	}}
}
