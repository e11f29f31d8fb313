package nodelock

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/nodelock"
	"usher.sh/usher/internal/policycache"
)

// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictionrequests,verbs=get;list;watch;create;patch

// Options says what the controller works with.
type Options struct {
	Act      *act.NodeLocks
	Governed *act.Governed
	Gatherer *policycache.Gatherer
	// Self is the manager's user, for words.
	Self string
	Now  func() time.Time
}

type reconciler struct {
	Options
	client client.Client
	live   client.Reader

	mu      sync.Mutex
	looked  map[client.ObjectKey]time.Time
	written map[client.ObjectKey]map[types.UID]nodelock.Written // by policy and node
}

// Of the workers, which wait for the apiserver, a namespace has workersEach at a time.
const workers, workersEach = 4, 1

// labelField is an index of policies by the label of their nodeLock; anyLabel is for all that have one.
const labelField, anyLabel = "nodelock:label", "*"

// Controller returns the controller of a cluster that serves eviction requests.
func Controller(mgr ctrl.Manager, o Options) wiring.Controller {
	r := newReconciler(o, mgr.GetClient(), mgr.GetAPIReader())
	return wiring.Controller{
		Name: "nodelock", Workers: workers, WorkersEach: workersEach, Reconcile: r.reconcile,
		Indexes: slices.Concat(wiring.TargetPodIndexes(), wiring.NodeLockIndexes(),
			[]wiring.Index{{Object: &v1alpha1.EvictionPolicy{}, Field: labelField, Values: labelsOf}}),
		Watches: []wiring.Watch{
			{Object: &v1alpha1.EvictionPolicy{}, Keys: r.itself, When: respecified()},
			{Object: &corev1.Pod{}, Keys: r.inNamespace, When: wiring.PodChanged()},
			{Object: &api.EvictionRequest{}, Keys: r.inNamespace},
			{Object: &corev1.Node{}, Keys: r.all, When: marked()},
		},
	}
}

func newReconciler(o Options, cached client.Client, live client.Reader) *reconciler {
	return &reconciler{
		Options: o, client: cached, live: live,
		looked: map[client.ObjectKey]time.Time{}, written: map[client.ObjectKey]map[types.UID]nodelock.Written{},
	}
}

func labelsOf(o client.Object) []string {
	policy, ok := o.(*v1alpha1.EvictionPolicy)
	if !ok || policy.Spec.NodeLock == nil {
		return nil
	}
	return []string{policy.Spec.NodeLock.StateLabel, anyLabel}
}

// respecified passes new specs of policies, and for those with a nodeLock what has been emptied and what is said of their nodes: a look that does not see yet what
// the one before has said leaves it so.
func respecified() predicate.Predicate {
	spec := wiring.Respecified()
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, known := e.ObjectOld.(*v1alpha1.EvictionPolicy)
		after, ok := e.ObjectNew.(*v1alpha1.EvictionPolicy)
		emptied := known && ok && after.Spec.NodeLock != nil && !equality.Semantic.DeepEqual(before.Status.Emptied, after.Status.Emptied)
		return emptied || known && ok && !equality.Semantic.DeepEqual(before.Status.NodeLock, after.Status.NodeLock) || spec.Update(e)
	}}
}

// marked passes nodes that come, and changes of labels or of which annotations there are.
func marked() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) || !sameKeys(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) ||
				e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

func sameKeys(a, b map[string]string) bool {
	for key := range a {
		if _, there := b[key]; !there {
			return false
		}
	}
	return len(a) == len(b)
}

// itself enqueues a policy with a nodeLock, or with locks that are left of one, and those that share its label.
func (r *reconciler) itself(ctx context.Context, o client.Object) []reconcile.Request {
	policy, ok := o.(*v1alpha1.EvictionPolicy)
	if !ok {
		return nil
	}
	if policy.Spec.NodeLock != nil {
		return append(r.sharing(ctx, policy.Spec.NodeLock.StateLabel), wiring.Itself(ctx, policy)...)
	}
	if nodes, err := wiring.LockedNodes(ctx, r.client, client.ObjectKeyFromObject(policy)); err == nil && len(nodes) == 0 {
		return nil
	}
	return wiring.Itself(ctx, policy)
}

// inNamespace enqueues the policies with a nodeLock of an object's namespace, and those that share their labels.
func (r *reconciler) inNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	policies, err := r.declaring(ctx, anyLabel, client.InNamespace(o.GetNamespace()))
	if err != nil {
		log.FromContext(ctx).Error(err, "an event is lost")
	}
	var keys []reconcile.Request
	for i := range policies {
		keys = append(keys, r.sharing(ctx, policies[i].Spec.NodeLock.StateLabel)...)
	}
	return keys
}

func (r *reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.sharing(ctx, anyLabel)
}

// sharing enqueues the policies whose nodeLock has a label.
func (r *reconciler) sharing(ctx context.Context, label string) []reconcile.Request {
	policies, err := r.declaring(ctx, label)
	if err != nil {
		log.FromContext(ctx).Error(err, "an event is lost")
	}
	keys := make([]reconcile.Request, len(policies))
	for i := range policies {
		keys[i].NamespacedName = client.ObjectKeyFromObject(&policies[i])
	}
	return keys
}

// declaring are the policies whose nodeLock has a label. They must not be changed.
func (r *reconciler) declaring(ctx context.Context, label string, in ...client.ListOption) ([]v1alpha1.EvictionPolicy, error) {
	var list v1alpha1.EvictionPolicyList
	err := r.client.List(ctx, &list, append(slices.Clone(in), client.MatchingFields{labelField: label}, client.UnsafeDisableDeepCopy)...)
	return list.Items, err
}

// pause is the least time between two looks at a policy: each is one at all its members.
const pause = time.Second

// early returns how long it is until a policy may be looked at again; zero: it may be now, and is.
func (r *reconciler) early(policy client.ObjectKey) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	if next := r.looked[policy].Add(pause); next.After(now) && next.Sub(now) <= pause {
		return next.Sub(now)
	}
	r.looked[policy] = now
	return 0
}

func (r *reconciler) forget(policy client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.looked, policy)
	delete(r.written, policy)
}

func (r *reconciler) wrote(policy client.ObjectKey, node types.UID, what nodelock.Written) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.written[policy] == nil {
		r.written[policy] = map[types.UID]nodelock.Written{}
	}
	r.written[policy][node] = what
}

// lastWrites are those of a policy on nodes that are there; others are forgotten.
func (r *reconciler) lastWrites(policy client.ObjectKey, there map[types.UID]bool) map[types.UID]nodelock.Written {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.written[policy], func(node types.UID, _ nodelock.Written) bool { return !there[node] })
	return maps.Clone(r.written[policy])
}
