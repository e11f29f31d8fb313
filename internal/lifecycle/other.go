package lifecycle

import (
	"encoding/json"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldManager owns what Usher's controller writes. Upstream's is another name, and that is how they tell each other
// apart.
const FieldManager = "usher-evictionrequest-controller"

// OtherMemory is how long another controller counts as running after its last sign of life.
const OtherMemory = 30 * time.Minute

// Other is another evictionrequest-controller, by the field manager of its writes.
type Other struct {
	Manager string
	Seen    time.Time
}

// FindOther returns the last sign that another controller wrote what only a controller writes: of an Eviction both its
// conditions and its target responders, of a request its conditions.
//
// What can be observed of another controller? Nothing announces it. It has no Lease of its own: upstream's would run
// inside kube-controller-manager, whose Lease exists with and without it, and so would its ClusterRole. Every write,
// though, leaves its field manager and the time in metadata.managedFields. Only server-side apply counts, which a
// controller of this API uses, and plain updates by the names that upstream may write under: a person's kubectl edit
// must not stop all evictions, and neither must a responder that applies a status as a whole.
func FindOther(o metav1.Object) (Other, bool) {
	_, eviction := o.(*api.Eviction)
	var last Other
	for _, m := range o.GetManagedFields() {
		if m.Subresource == "status" && m.Manager != FieldManager && m.Time != nil && m.Time.After(last.Seen) &&
			likeController(m) && ownsControllerFields(m, eviction) {
			last = Other{Manager: m.Manager, Seen: m.Time.Time}
		}
	}
	return last, last.Manager != ""
}

func likeController(m metav1.ManagedFieldsEntry) bool {
	return m.Operation == metav1.ManagedFieldsOperationApply ||
		m.Manager == "evictionrequest-controller" || m.Manager == "kube-controller-manager"
}

// fieldTree is a set of fields as managedFields spells it.
type fieldTree map[string]json.RawMessage

func (t fieldTree) child(name string) fieldTree {
	var child fieldTree
	if json.Unmarshal(t[name], &child) != nil {
		return nil
	}
	return child
}

func (t fieldTree) has(names ...string) bool {
	for _, name := range names {
		if _, ok := t[name]; ok {
			return true
		}
	}
	return false
}

func statusFields(m metav1.ManagedFieldsEntry) fieldTree {
	if m.FieldsV1 == nil {
		return nil
	}
	var all fieldTree
	if json.Unmarshal(m.FieldsV1.GetRawBytes(), &all) != nil {
		return nil
	}
	return all.child("f:status")
}

func ownsControllerFields(m metav1.ManagedFieldsEntry, eviction bool) bool {
	status := statusFields(m)
	if !status.child("f:conditions").has(`k:{"type":"Failed"}`, `k:{"type":"TargetEvicted"}`) {
		return false
	}
	return !eviction || status.has("f:targetResponders") && !speaks(status.child("f:responders"))
}

// speaks says whether one of the entries is a responder's word.
func speaks(entries fieldTree) bool {
	for name := range entries {
		if entries.child(name).isWord() {
			return true
		}
	}
	return false
}

// isWord says whether an entry has what only its responder writes.
func (t fieldTree) isWord() bool { return t.has("f:heartbeatTime", "f:message", "f:completionTime") }

// ServedByOther returns the field manager of another process that reports as the given responder; false if there is
// none but own. Two that serve one entry would overwrite each other's words.
func ServedByOther(e *api.Eviction, responder, own string) (string, bool) {
	for _, m := range e.ManagedFields {
		if m.Subresource != "status" || m.Manager == own {
			continue
		}
		if statusFields(m).child("f:responders").child(`k:{"name":"` + responder + `"}`).isWord() {
			return m.Manager, true
		}
	}
	return "", false
}
