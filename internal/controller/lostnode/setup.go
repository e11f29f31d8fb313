// Package lostnode answers: which nodes have fallen silent, and what is done about each?
//
// Two controllers share the work. One looks at all nodes at once, begins fences and says in the policies' status what each unreachable
// node waits for; the other takes one fence from step to step, so that a machine that does not answer keeps no other waiting.
package lostnode

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// What the controllers read, and where they say what they may not do. What they do needs the optional role usher-lost-nodes.
// +kubebuilder:rbac:groups="",resources=nodes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=usher.sh,resources=lostnodepolicies;nodefences,verbs=get;list;watch
// +kubebuilder:rbac:groups=usher.sh,resources=lostnodepolicies/status,verbs=update

// Options says what the controllers work with.
type Options struct {
	Act *act.Fences
	// Secret reads a Secret of the manager's own namespace.
	Secret func(ctx context.Context, key snapshot.Key) (*corev1.Secret, error)
	// Namespace is the manager's own.
	Namespace string
	// Loopback lets fences name addresses of the machine that the manager runs on.
	Loopback bool
	Now      func() time.Time
	// Self is who the manager is to the apiserver.
	Self string
}

type reconciler struct {
	Options
	client client.Client
	live   client.Reader
	events events.EventRecorder
}

// everything is the one key of what looks at all nodes.
var everything = []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "all"}}}

// workers are many because they wait for machines.
const workers = 16

// Controllers returns the two controllers.
func Controllers(mgr ctrl.Manager, o Options) []wiring.Controller {
	r := &reconciler{Options: o, client: mgr.GetClient(), live: mgr.GetAPIReader(), events: mgr.GetEventRecorder("usher-lost-nodes")}
	all := func(context.Context, client.Object) []reconcile.Request { return everything }
	return []wiring.Controller{
		{
			Name: "lostnodes", Workers: 1, Reconcile: r.begin,
			Watches: []wiring.Watch{
				{Object: &corev1.Node{}, Keys: all, When: nodeMatters()},
				{Object: &v1alpha1.LostNodePolicy{}, Keys: all, When: wiring.Respecified()},
				{Object: &v1alpha1.NodeFence{}, Keys: all, When: stepChanges()},
			},
		},
		{
			Name: "nodefence", Workers: workers, Reconcile: r.step,
			Watches: []wiring.Watch{
				{Object: &v1alpha1.NodeFence{}, Keys: wiring.Itself, When: respecified()},
				{Object: &v1alpha1.LostNodePolicy{}, Keys: r.fencesOfPolicy, When: wiring.Respecified()},
				{Object: &corev1.Node{}, Keys: r.fencesOnNode, When: nodeMatters()},
				{Object: &corev1.Pod{}, Keys: r.fencesOfPod, When: wiring.Gone()},
			},
		},
	}
}

// nodeMatters drops updates of nodes that change nothing a fence rests on.
func nodeMatters() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, known := e.ObjectNew.(*corev1.Node)
		return !ok || !known || !sameNode(before, after)
	}}
}

func sameNode(before, after *corev1.Node) bool {
	a, b := observe.LostNodeFacts(before), observe.LostNodeFacts(after)
	tainted := func(node *corev1.Node) string {
		for _, t := range node.Spec.Taints {
			if t.Key == corev1.TaintNodeOutOfService {
				return string(t.Effect) + "/" + t.Value
			}
		}
		return ""
	}
	return a.UID == b.UID && a.BootID == b.BootID && a.Ready == b.Ready && a.Since.Equal(b.Since) && maps.Equal(a.Labels, b.Labels) && tainted(before) == tainted(after)
}

// stepChanges drops what only says more about the same step.
func stepChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.NodeFence)
		after, known := e.ObjectNew.(*v1alpha1.NodeFence)
		return !ok || !known || before.Status.Step != after.Status.Step
	}}
}

// respecified drops what the controller itself writes into a status: that must not wake it, or it would ask the machine again at once.
func respecified() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
			e.ObjectNew.GetDeletionTimestamp() != nil
	}}
}

func (r *reconciler) fencesOfPolicy(ctx context.Context, policy client.Object) []reconcile.Request {
	return r.fencesWhere(ctx, func(f *v1alpha1.NodeFence) bool { return f.Spec.Policy == policy.GetName() })
}

func (r *reconciler) fencesOnNode(ctx context.Context, node client.Object) []reconcile.Request {
	return r.fencesWhere(ctx, func(f *v1alpha1.NodeFence) bool { return f.Spec.NodeName == node.GetName() })
}

func (r *reconciler) fencesOfPod(ctx context.Context, o client.Object) []reconcile.Request {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil
	}
	return r.fencesWhere(ctx, func(f *v1alpha1.NodeFence) bool { return f.Spec.NodeName == pod.Spec.NodeName })
}

// fencesWhere returns the keys of fences that are not over. There are few.
func (r *reconciler) fencesWhere(ctx context.Context, is func(*v1alpha1.NodeFence) bool) []reconcile.Request {
	var fences v1alpha1.NodeFenceList
	if err := r.client.List(ctx, &fences, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "an event wakes no fence")
		return nil
	}
	var keys []reconcile.Request
	for i := range fences.Items {
		if f := &fences.Items[i]; !f.Status.Over() && is(f) {
			keys = append(keys, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f)})
		}
	}
	return keys
}
