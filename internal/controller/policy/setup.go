package policy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/policycache"
)

// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictionrequests,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=usher.sh,resources=nodefences,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options says what the controller works with.
type Options struct {
	Gatherer *policycache.Gatherer
	Act      *act.Governed
	// Requests says that the cluster serves eviction requests.
	Requests bool
}

type reconciler struct {
	Options
	client  client.Client
	live    client.Reader
	events  events.EventRecorder
	gone    *gonePods
	permits *knownPermits
	ran     *ranMembers
	// What the two controllers remember.
	missingPolicies *since[missingPolicy]    // policies that labels name and that are missing
	unneeded        *since[client.ObjectKey] // policies whose finalizer is not needed
	labelErrors     *labelErrors
	tolerations     *tolerated
	throttle        *throttle
}

func newReconciler(o Options, cached client.Client, live client.Reader, recorder events.EventRecorder) *reconciler {
	return &reconciler{
		Options: o, client: cached, live: live, events: recorder,
		gone: newGonePods(), permits: newKnownPermits(), ran: newRanMembers(), missingPolicies: newSince[missingPolicy](), unneeded: newSince[client.ObjectKey](),
		labelErrors: newLabelErrors(), tolerations: newTolerated(), throttle: newThrottle(),
	}
}

// workers are many because some wait for the apiserver; a namespace has workersEach of them at most.
const workers, workersEach = 16, 2

// Controllers returns the controllers of policies and of labels.
func Controllers(mgr ctrl.Manager, o Options) []wiring.Controller {
	s := newReconciler(o, mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("usher-policy"))
	policies := wiring.Controller{
		Name: "policy", Workers: workers, WorkersEach: workersEach, Reconcile: s.reconcile, Observed: wiring.Itself,
		Watches: []wiring.Watch{
			{Object: &v1alpha1.EvictionPolicy{}, Keys: wiring.Itself},
			{Object: &v1alpha1.EvictionPolicy{}, Keys: s.policiesOf, When: wiring.Respecified()}, // they may claim the same pods
			{Object: &corev1.Pod{}, Keys: s.policiesOf, When: wiring.PodChanged()},
			{Object: &v1alpha1.NodeFence{}, Keys: s.policiesThatCare, When: provesOff()},
		},
	}
	if o.Requests {
		policies.Indexes = append(wiring.TargetPodIndexes(), wiring.NodeLockIndexes()...)
		policies.Watches = append(policies.Watches, wiring.Watch{Object: &api.EvictionRequest{}, Keys: s.policiesOf})
	}
	labels := wiring.Controller{
		Name: "labels", Workers: workers, Reconcile: s.reconcileLabels, // a namespace is one key, so one that is big keeps one
		Watches: []wiring.Watch{
			{Object: &corev1.Namespace{}, Keys: wiring.Itself},
			{Object: &v1alpha1.EvictionPolicy{}, Keys: namespaceOf, When: wiring.Respecified()},
			{Object: &corev1.Pod{}, Keys: s.namespaceOfPod, When: wiring.PodChanged()},
		},
	}
	return []wiring.Controller{policies, labels}
}

// policiesOf enqueues the policies of an object's namespace.
func (s *reconciler) policiesOf(ctx context.Context, o client.Object) []reconcile.Request {
	policies, err := s.Gatherer.Policies.All(ctx, o.GetNamespace())
	if err != nil {
		log.FromContext(ctx).Error(err, "an event is lost")
	}
	requests := make([]reconcile.Request, len(policies))
	for i, policy := range policies {
		requests[i].NamespacedName = client.ObjectKeyFromObject(policy)
	}
	return requests
}

func namespaceOf(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.GetNamespace()}}}
}

// namespaceOfPod passes over the pods of namespaces that have no policy, unless they still say that they are governed or audited.
func (s *reconciler) namespaceOfPod(ctx context.Context, pod client.Object) []reconcile.Request {
	_, labelled := pod.GetLabels()[v1alpha1.PolicyLabel]
	_, audited := pod.GetLabels()[v1alpha1.AuditLabel]
	if labelled || audited || len(s.policiesOf(ctx, pod)) > 0 {
		return namespaceOf(ctx, pod)
	}
	return nil
}
