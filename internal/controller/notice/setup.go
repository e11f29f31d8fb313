// Package notice answers: which news of nodes is there, and what is done about it?
//
// A controller follows the conditions and taints of nodes, and what ends or begins with time, on the replica that leads. A receiver takes alerts on every
// replica: what they lead to is made under names that all replicas derive alike, and changed at the version that was seen, so that none needs to know of the
// others.
package notice

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/observe"
)

// Options is what the controller and the receiver need.
type Options struct {
	Act *act.Notices
	// Namespace is Usher's own: the configuration and the shared secret are there.
	Namespace string
	// Machines are those of Cluster API; nil: they are not followed.
	Machines *observe.Machines
	Now      func() time.Time
	Log      *slog.Logger
}

// manager is the part of a manager that is used.
type manager interface {
	GetClient() client.Client
	GetAPIReader() client.Reader
	GetEventRecorder(name string) recorder.EventRecorder
}

// What they may do besides is in config/notices.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=usher.sh,resources=nodemaintenances,verbs=get;list;watch;patch

// Controller returns the controller.
func Controller(mgr manager, o Options) wiring.Controller {
	r := &reconciler{sources: sources{o, mgr.GetClient(), mgr.GetAPIReader()}, events: mgr.GetEventRecorder("usher-notices"), reported: map[string]bool{}}
	watches := []wiring.Watch{
		{Object: &corev1.Node{}, Keys: whole, When: nodeMatters()},
		{Object: &corev1.ConfigMap{}, Keys: r.ofConfiguration},
		{Object: &v1alpha1.NodeMaintenance{}, Keys: ofNotices, When: maintenanceMatters()},
	}
	if o.Machines != nil {
		machine := &unstructured.Unstructured{}
		machine.SetGroupVersionKind(o.Machines.Kind)
		watches = append(watches, wiring.Watch{Object: machine, Keys: whole, When: machineMatters()})
	}
	return wiring.Controller{
		Name:      "notice",
		Watches:   watches,
		Reconcile: r.reconcile,
		Workers:   1,
	}
}

// everything is the one key: of conditions and taints all notices have to be known, to know which are withdrawn.
const everything = "notices"

func whole(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: everything}}}
}

func (r *reconciler) ofConfiguration(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetNamespace() != r.Namespace || o.GetName() != notice.ConfigName {
		return nil
	}
	return whole(ctx, o)
}

func ofNotices(ctx context.Context, o client.Object) []reconcile.Request {
	m, ok := o.(*v1alpha1.NodeMaintenance)
	if !ok {
		return nil
	}
	if _, _, is := notice.Of(m.Spec.Requester); !is {
		return nil
	}
	return whole(ctx, o)
}

// nodeMatters drops updates of nodes that change no condition and no taint. The times at which kubelets look again are none.
func nodeMatters() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, is := e.ObjectNew.(*corev1.Node)
		return !ok || !is || before.UID != after.UID || !apiequality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
			!apiequality.Semantic.DeepEqual(withoutBeats(before), withoutBeats(after))
	}}
}

func withoutBeats(node *corev1.Node) []corev1.NodeCondition {
	conditions := make([]corev1.NodeCondition, len(node.Status.Conditions))
	for i := range node.Status.Conditions {
		c := node.Status.Conditions[i]
		conditions[i] = corev1.NodeCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime, Message: c.Message}
	}
	return conditions
}

// machineMatters passes Machines that are being deleted.
func machineMatters() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetDeletionTimestamp() != nil })
}

// maintenanceMatters drops updates of maintenances that change their status alone, but for those that Machines wait for.
func maintenanceMatters() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			!apiequality.Semantic.DeepEqual(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) || isAwaited(e.ObjectNew)
	}}
}

// isAwaited reports whether a Machine waits until a maintenance has done with its node.
func isAwaited(o client.Object) bool {
	m, ok := o.(*v1alpha1.NodeMaintenance)
	if !ok {
		return false
	}
	source, _, is := notice.Of(m.Spec.Requester)
	return is && source == notice.ClusterAPI
}
