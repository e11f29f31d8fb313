// Package imperative answers: who evicts a pod when no other responder could? It is the responder
// imperative-eviction.k8s.io/evictor, which every eviction has as its last: it asks the eviction API under the pod's
// budgets, again and again with a growing pause, and says in its entry what it was told.
//
// Where another process already reports as this responder, as upstream's may, ours leaves the eviction to it.
package imperative

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/lifecycle"
	"usher.sh/usher/internal/share"
)

// FieldManager owns what this responder reports.
const FieldManager = "usher-imperative-eviction"

// podIndex finds evictions by the name of their pod. Its own name keeps it apart from the index of the controller that
// may share the cache.
const podIndex = "imperative:spec.target.pod.name"

// Of the workers a namespace has workersEach at a time.
const workers, workersEach = 5, 2

// Options says what the responder works with.
type Options struct {
	// Version is the group and version under which the cluster serves evictions; the manager's scheme must have the
	// kinds registered under it.
	Version schema.GroupVersion
}

// Setup adds the responder to a manager.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("setting up the imperative responder: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &api.Eviction{}, podIndex, podName); err != nil {
		return fmt.Errorf("indexing evictions by pod: %w", err)
	}
	s := &shell{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), options: o,
		writer: &act.Writer{Client: clientset}, attempts: newAttempts(),
	}
	each := share.NewWorkers(workersEach)
	err = ctrl.NewControllerManagedBy(mgr).Named("imperative-eviction").
		For(&api.Eviction{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(s.ofPod)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: each.NewQueue}).
		Complete(each.Reconciler(s.reconcile))
	if err != nil {
		return fmt.Errorf("setting up the imperative responder: %w", err)
	}
	return nil
}

func podName(o client.Object) []string {
	if e, ok := o.(*api.Eviction); ok {
		if ref, ok := lifecycle.EvictionRef(e); ok {
			return []string{ref.Name}
		}
	}
	return nil
}
