// Package defaultresponder answers: what evicts a pod when no other responder could? It is the responder
// imperative-eviction.k8s.io/evictor, which every eviction has as its last: it asks the eviction API under the pod's
// budgets, again and again with a growing pause, and says in its entry what was answered.
//
// Where another process already reports as this responder, as upstream's may, this one leaves the eviction to it.
package defaultresponder

import (
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/wiring"
)

// FieldManager owns what this responder reports.
const FieldManager = "usher-imperative-eviction"

// Of the workers a namespace has workersEach at a time.
const workers, workersEach = 5, 2

// Options says what the responder works with.
type Options struct {
	// Version is the group and version under which the cluster serves evictions; the manager's scheme must have the
	// kinds registered under it.
	Version schema.GroupVersion
	// Writer sends evictions.
	Writer *act.Writer
}

// Controllers returns the responder's controller.
func Controllers(mgr ctrl.Manager, o Options) []wiring.Controller {
	s := &reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), options: o, attempts: newAttempts()}
	return []wiring.Controller{{
		Name: "imperative-eviction", Workers: workers, WorkersEach: workersEach, Reconcile: s.reconcile, Indexes: wiring.TargetPodIndexes(),
		Watches: []wiring.Watch{
			{Object: &api.Eviction{}, Keys: wiring.Itself},
			{Object: &corev1.Pod{}, Keys: s.ofPod},
		},
	}}
}
