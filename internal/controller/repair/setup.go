package repair

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// That a successor is made needs the optional role usher-replacements: without that the request says what is missing. What the pods of MemberSets need is read by
// usher-member-sets: without that it is not known.
// +kubebuilder:rbac:groups=usher.sh,resources=replacementrequests,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes;pods,verbs=get;list;watch

// Options says what the controller works with.
type Options struct {
	Act      *act.Replacements
	Gatherer *policycache.Gatherer
	Now      func() time.Time
}

type reconciler struct {
	Options
	client client.Client
	live   client.Reader

	mu        sync.Mutex
	looked    map[client.ObjectKey]time.Time // by policy
	equipment map[client.ObjectKey]equipment // by MemberSet, whose policy has its name
	sets      setStore
}

// workers are few: a look at a policy is one at all its members.
const workers, workersEach = 4, 1

// Controller returns the controller of policies whose members are repaired.
func Controller(mgr ctrl.Manager, o Options) wiring.Controller {
	r := &reconciler{Options: o, client: mgr.GetClient(), live: mgr.GetAPIReader(), looked: map[client.ObjectKey]time.Time{}}
	return wiring.Controller{
		Name: "repair", Workers: workers, WorkersEach: workersEach, Reconcile: r.reconcile, Observed: r.itself,
		Watches: []wiring.Watch{
			{Object: &v1alpha1.EvictionPolicy{}, Keys: wiring.Itself, When: wiring.Respecified()},
			{Object: &v1alpha1.ReplacementRequest{}, Keys: policyOf, When: stepChanges()},
			{Object: &corev1.Pod{}, Keys: r.policiesOfPod, When: wiring.PodChanged()},
			{Object: &corev1.Node{}, Keys: r.policiesOnNode, When: nodeChanges()},
		},
	}
}

// stepChanges drops updates of requests that begin and end nothing.
func stepChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.ReplacementRequest)
		after, known := e.ObjectNew.(*v1alpha1.ReplacementRequest)
		return !ok || !known || before.Status.Step != after.Status.Step || before.UID != after.UID
	}}
}

// nodeChanges drops updates of nodes that say nothing new of their taints, or whether they are cordoned or Ready: a member that is lost can be replaced once its node
// does not report.
func nodeChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, known := e.ObjectNew.(*corev1.Node)
		if !ok || !known || before.UID != after.UID || before.Spec.Unschedulable != after.Spec.Unschedulable ||
			observe.NodeReady(before) != observe.NodeReady(after) || len(before.Spec.Taints) != len(after.Spec.Taints) {
			return true
		}
		for i := range before.Spec.Taints {
			was, is := &before.Spec.Taints[i], &after.Spec.Taints[i]
			if !was.MatchTaint(is) || !was.TimeAdded.Equal(is.TimeAdded) {
				return true
			}
		}
		return false
	}}
}

func policyOf(_ context.Context, o client.Object) []reconcile.Request {
	request, ok := o.(*v1alpha1.ReplacementRequest)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: request.Namespace, Name: request.Spec.Source.Name}}}
}

// itself passes over policies whose members are not repaired.
func (r *reconciler) itself(ctx context.Context, o client.Object) []reconcile.Request {
	policy, ok := o.(*v1alpha1.EvictionPolicy)
	if !ok || policy.Spec.Repair == nil {
		return nil
	}
	return wiring.Itself(ctx, o)
}

func (r *reconciler) policiesOfPod(ctx context.Context, pod client.Object) []reconcile.Request {
	return r.repaired(ctx, pod.GetNamespace(), func(*v1alpha1.EvictionPolicy) bool { return true })
}

// policiesOnNode returns the policies to which a taint or a cordon of a node may mean something.
func (r *reconciler) policiesOnNode(ctx context.Context, o client.Object) []reconcile.Request {
	node, ok := o.(*corev1.Node)
	cordoned := ok && node.Spec.Unschedulable // where its members are has to be known before they have left
	return r.repaired(ctx, "", func(policy *v1alpha1.EvictionPolicy) bool {
		return cordoned || len(policy.Spec.Repair.Taints) > 0 || len(policy.Status.Unhealthy) > 0
	})
}

// repaired returns the keys of the policies of a namespace, or of all (""), whose members are repaired.
func (r *reconciler) repaired(ctx context.Context, namespace string, is func(*v1alpha1.EvictionPolicy) bool) []reconcile.Request {
	policies, err := r.Gatherer.Policies.All(ctx, namespace)
	if err != nil {
		log.FromContext(ctx).Error(err, "an event wakes no repair")
	}
	var keys []reconcile.Request
	for _, policy := range policies {
		if policy.Spec.Repair != nil && is(policy) {
			keys = append(keys, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(policy)})
		}
	}
	return keys
}

// early returns how long it is until a policy may be looked at again, since each look is one at all its members; zero: it may be now, and is.
func (r *reconciler) early(policy client.ObjectKey) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	if next := r.looked[policy].Add(pause); next.After(now) {
		return next.Sub(now)
	}
	r.looked[policy] = now
	return 0
}

func (r *reconciler) forget(policy client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.looked, policy)
	delete(r.equipment, policy)
	r.sets.forget(policy)
}
