package memberset

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
)

// What it makes and removes needs the optional role usher-member-sets: without that it says what is missing.
// +kubebuilder:rbac:groups=usher.sh,resources=membersets,verbs=get;list;watch
// +kubebuilder:rbac:groups=usher.sh,resources=membersets/status,verbs=patch
// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies;replacementrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=patch
// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictionrequests,verbs=get;list;watch;create;patch

// Role is the optional ClusterRole without which nothing is made.
const Role = "usher-member-sets"

// FileRole is the ClusterRole by which a namespace has its ConfigMap with a cluster file made and kept.
const FileRole = "usher-cluster-files"

// Options says what the controller works with.
type Options struct {
	Act *act.Sets
	// Members removes what a member has.
	Members  *act.Replacements
	Gatherer *policycache.Gatherer
	// Self is who the manager is to the apiserver.
	Self string
	// Requests: the cluster serves eviction requests, and the cache has those of a pod by an index.
	Requests bool
	Now      func() time.Time
}

type reconciler struct {
	Options
	client client.Client
	live   client.Reader
}

// workers are many because some wait for systems; a namespace has workersEach of them at most.
const workers, workersEach = 8, 2

// Controller returns the controller of MemberSets.
func Controller(mgr ctrl.Manager, o Options) wiring.Controller {
	r := &reconciler{Options: o, client: mgr.GetClient(), live: mgr.GetAPIReader()}
	c := wiring.Controller{
		Name: "memberset", Workers: workers, WorkersEach: workersEach, Reconcile: r.reconcile, Observed: wiring.Itself,
		Watches: []wiring.Watch{
			{Object: &v1alpha1.MemberSet{}, Keys: wiring.Itself, When: wiring.Respecified()},
			{Object: &v1alpha1.EvictionPolicy{}, Keys: wiring.Itself, When: wiring.Respecified()}, // of the set's name
			{Object: &v1alpha1.ReplacementRequest{}, Keys: setOfRequest},
			{Object: &corev1.Pod{}, Keys: setOfPod, When: wiring.PodChanged()},
		},
	}
	if o.Requests {
		c.Indexes = wiring.TargetPodIndexes()
		c.Watches = append(c.Watches, wiring.Watch{Object: &api.EvictionRequest{}, Keys: r.setOfEviction})
	}
	return c
}

// setOfEviction is the set that controls the pod whose eviction is asked for.
func (r *reconciler) setOfEviction(ctx context.Context, o client.Object) []reconcile.Request {
	request, ok := o.(*api.EvictionRequest)
	if !ok || request.Spec.Target.Pod == nil {
		return nil
	}
	var pod corev1.Pod
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: request.Spec.Target.Pod.Name}, &pod); err != nil {
		return nil // it is gone, and its set was woken by that
	}
	return setOfPod(ctx, &pod)
}

// setOfRequest is the set whose policy, which has its name, the request is about.
func setOfRequest(_ context.Context, o client.Object) []reconcile.Request {
	request, ok := o.(*v1alpha1.ReplacementRequest)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: request.Namespace, Name: request.Spec.Source.Name}}}
}

// setOfPod is the set that controls the pod.
func setOfPod(_ context.Context, o client.Object) []reconcile.Request {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil || owner.Kind != "MemberSet" || owner.APIVersion != v1alpha1.GroupVersion.String() {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: owner.Name}}}
}

// binding is how an admin gives the manager the rights that it lacks.
func (r *reconciler) binding() string {
	return "usher install --member-sets; or " + observe.BindManager(Role, r.Self)
}

// bindingOfFile is how a namespace gives the manager the right to its ConfigMaps.
func (r *reconciler) bindingOfFile(namespace string) string {
	return observe.BindManagerIn(namespace, FileRole, r.Self)
}
