package governed

import (
	"slices"

	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/internal/lifecycle"
)

// stranger is a responder that is not Usher's: it does its work at some time, and does not look whether the pod is still there.
const stranger = "backup.example.com/snapshot"

// strange is an eviction in which it is the stranger's turn, nil if there is none.
func (w *world) strange() *api.Eviction {
	all := list[*api.Eviction](w.store, evictions)
	at := slices.IndexFunc(all, func(e *api.Eviction) bool { return lifecycle.Active(e, stranger) })
	if at < 0 {
		return nil
	}
	return all[at]
}

// answer has the stranger say that it is done.
func (w *world) answer(e *api.Eviction) {
	w.note("%s is done with %s", stranger, e.Name)
	entry := *lifecycle.Entry(e, stranger).DeepCopy()
	entry.CompletionTime, entry.HeartbeatTime = &metav1.Time{Time: w.store.now()}, &metav1.Time{Time: w.store.now()}
	patch, err := lifecycle.ReportPatch(lifecycleapi.Usher, e, entry)
	if err == nil {
		err = w.store.apply(evictions, client.ObjectKeyFromObject(e), status, stranger, normal(without(patch.UnstructuredContent(), "apiVersion", "kind")))
	}
	if err != nil {
		w.fail("SIMULATOR", "%s: %v", stranger, err)
	}
}
