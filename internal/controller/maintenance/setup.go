package maintenance

import (
	"context"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/wiring"
	lifecycleclient "usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
)

// Options is what the controller needs.
type Options struct {
	Act *act.Maintenance
	// Replacements makes the requests for members whose data is on a node that is deleted, and Policies knows which these are.
	Replacements *act.Replacements
	Policies     *policycache.Cache
	Kube         kubernetes.Interface
	Evictions    *lifecycleclient.Client
	// Holds knows how long budgets may hold a drain.
	Holds observe.Holds
	// Self is this process as a drainer.
	Self snapshot.Drainer
	Now  func() time.Time
	Log  *slog.Logger
}

// manager is the part of a manager that is used.
type manager interface {
	GetClient() client.Client
	GetAPIReader() client.Reader
}

// What it may do besides is in config/maintenance: without that it says what is missing.
// +kubebuilder:rbac:groups=usher.sh,resources=nodemaintenances,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=usher.sh,resources=nodemaintenances/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=usher.sh,resources=evictionpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=usher.sh,resources=replacementrequests,verbs=get;list;watch;create

// Controller returns the controller, and what runs its drains for as long as this process leads.
func Controller(mgr manager, o Options) (wiring.Controller, *Drains) {
	drains := newDrains(o)
	r := &reconciler{Options: o, client: mgr.GetClient(), live: mgr.GetAPIReader(), drains: drains, calls: newCalls()}
	return wiring.Controller{
		Name: "maintenance",
		Watches: []wiring.Watch{
			{Object: &v1alpha1.NodeMaintenance{}, Keys: whole},
			{Object: &corev1.Node{}, Keys: whole, When: matters()},
		},
		Notified:  drains.changed,
		Reconcile: r.reconcile,
		Workers:   1,
	}, drains
}

// everything is the one key: what one maintenance may begin depends on all others.
const everything = "nodes"

func whole(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: everything}}}
}

// matters drops updates of nodes that change nothing that maintenances go by: kubelets write their nodes every few minutes.
func matters() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, is := e.ObjectNew.(*corev1.Node)
		return !ok || !is || differ(before, after)
	}}
}

func differ(a, b *corev1.Node) bool {
	return a.UID != b.UID || a.Spec.Unschedulable != b.Spec.Unschedulable || a.Annotations[snapshot.DrainAnnotation] != b.Annotations[snapshot.DrainAnnotation] ||
		a.Annotations[snapshot.MarksAnnotation] != b.Annotations[snapshot.MarksAnnotation] || !apiequality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) ||
		a.Status.NodeInfo.BootID != b.Status.NodeInfo.BootID || a.Status.NodeInfo.KubeletVersion != b.Status.NodeInfo.KubeletVersion ||
		!apiequality.Semantic.DeepEqual(a.Labels, b.Labels) || !slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, sameCondition)
}

func sameCondition(a, b corev1.NodeCondition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Message == b.Message
}
