package histories

import (
	"slices"

	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/internal/evictionrequest"
)

// foreignResponder is a responder that is not Usher's: it does its work at some time, and does not look whether the pod is still there.
const foreignResponder = "backup.example.com/snapshot"

// foreignTurn is an eviction in which it is the turn of foreignResponder, nil if there is none.
func (w *world) foreignTurn() *api.Eviction {
	all := list[*api.Eviction](w.store, evictions)
	at := slices.IndexFunc(all, func(e *api.Eviction) bool { return evictionrequest.Active(e, foreignResponder) })
	if at < 0 {
		return nil
	}
	return all[at]
}

// answerNext has foreignResponder do its work in an eviction in which it is its turn, and reports whether there was one.
func (w *world) answerNext() bool {
	e := w.foreignTurn()
	if e != nil {
		w.answer(e)
	}
	return e != nil
}

// answer has foreignResponder say that it is done.
func (w *world) answer(e *api.Eviction) {
	w.note("%s is done with %s", foreignResponder, e.Name)
	entry := *evictionrequest.Entry(e, foreignResponder).DeepCopy()
	entry.CompletionTime, entry.HeartbeatTime = &metav1.Time{Time: w.store.now()}, &metav1.Time{Time: w.store.now()}
	patch, err := evictionrequest.ReportPatch(lifecycleapi.Usher, e, entry)
	if err == nil {
		err = w.store.apply(evictions, client.ObjectKeyFromObject(e), status, foreignResponder, normal(without(patch.UnstructuredContent(), "apiVersion", "kind")))
	}
	if err != nil {
		w.fail("SIMULATOR", "%s: %v", foreignResponder, err)
	}
}
