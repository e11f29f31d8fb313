// Package taint answers: which governed pods should Kubernetes have evicted for a taint, and has it given up?
//
// The taint-eviction-controller deletes a pod when its toleration has run out. It tries five times within some 50 ms and
// never again while the taint and the pod stay as they are. A DELETE that admission refuses leaves an EvictionRequest in the
// controller's name; one that no replica answers leaves nothing but a condition on the pod. When a replica begins to lead, when
// the NoExecute taints of a node change, when a pod on it becomes governed, and every ten minutes while such a pod is there, the
// requests that are missing or that the manager has withdrawn are made.
package taint

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/policycache"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=lifecycle.k8s.io;lifecycle.usher.sh,resources=evictionrequests,verbs=get;list;watch;create;patch

// Options says what the controller works with.
type Options struct {
	Gatherer *policycache.Gatherer
	Act      *act.Governed
}

// Reconciler makes the requests that are missing on one node.
type Reconciler struct {
	Options
	client client.Client
	live   client.Reader

	mu sync.Mutex
	// seen is when this process saw a taint first that does not say when it was added.
	seen map[seenTaint]time.Time
}

type seenTaint struct {
	node  string
	taint string
}

// Controllers returns the controller of a cluster that serves eviction requests. Its keys are names of nodes.
func Controllers(mgr ctrl.Manager, o Options) []wiring.Controller {
	r := &Reconciler{Options: o, client: mgr.GetClient(), live: mgr.GetAPIReader(), seen: map[seenTaint]time.Time{}}
	return []wiring.Controller{{
		Name: "taint", Workers: 1, Reconcile: r.reconcile, Indexes: wiring.GovernedNodeIndexes(),
		Watches: []wiring.Watch{
			{Object: &corev1.Node{}, Keys: wiring.Itself, When: taintsChange()},
			{Object: &corev1.Pod{}, Keys: nodeOf, When: becomesGoverned()},
		},
	}}
}

// taintsChange passes nodes with NoExecute taints when they are first seen, and updates that change these taints.
func taintsChange() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return len(noExecute(e.Object)) > 0 },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !equality.Semantic.DeepEqual(noExecute(e.ObjectOld), noExecute(e.ObjectNew))
		},
	}
}

// becomesGoverned passes pods from when they have both the label of a policy and a node, and those that a broken watch shows as another
// of the name.
func becomesGoverned() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return nodeOfGoverned(e.Object) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return nodeOfGoverned(e.ObjectNew) != "" && (nodeOfGoverned(e.ObjectOld) == "" || e.ObjectOld.GetUID() != e.ObjectNew.GetUID())
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func nodeOfGoverned(o client.Object) string {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Labels[v1alpha1.PolicyLabel] == "" {
		return ""
	}
	return pod.Spec.NodeName
}

// nodeOf is asked for what a pod was before as well.
func nodeOf(_ context.Context, pod client.Object) []reconcile.Request {
	if node := nodeOfGoverned(pod); node != "" {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: node}}}
	}
	return nil
}

func noExecute(o client.Object) []corev1.Taint {
	node, ok := o.(*corev1.Node)
	if !ok {
		return nil
	}
	var found []corev1.Taint
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Effect == corev1.TaintEffectNoExecute {
			found = append(found, node.Spec.Taints[i])
		}
	}
	return found
}

// since returns when a taint began, by what it says or by when it was seen first. A time in the future does not count.
func (r *Reconciler) since(node types.UID, now time.Time) func(*corev1.Taint) time.Time {
	return func(taint *corev1.Taint) time.Time {
		if taint.TimeAdded != nil && !taint.TimeAdded.After(now) {
			return taint.TimeAdded.Time
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		key := seenTaint{string(node), taint.ToString()}
		if _, known := r.seen[key]; !known {
			r.seen[key] = now
		}
		return r.seen[key]
	}
}

// forget drops what was seen of taints that a node has no longer.
func (r *Reconciler) forget(node types.UID, taints []corev1.Taint) {
	here := map[string]bool{}
	for i := range taints {
		here[taints[i].ToString()] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.seen {
		if key.node == string(node) && !here[key.taint] {
			delete(r.seen, key)
		}
	}
}
