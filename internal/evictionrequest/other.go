package evictionrequest

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

// clockError is how far the apiserver's clock may be ahead of what the caller takes it to be.
const clockError = 5 * time.Second

// FindOther returns the last sign that another controller wrote what only a controller writes of an Eviction: both its
// conditions and its target responders. A sign that is later than now, or older than OtherMemory, is none.
//
// Nothing announces another controller. It has no Lease of its own: upstream's would run inside kube-controller-manager,
// whose Lease exists with and without it, and so would its ClusterRole. Every write, though, leaves its field manager and
// the time in metadata.managedFields. The apiserver stores the managedFields that a client sends with a write of the main
// resource, so who may write an object can claim any manager and any time. That is why only Evictions count, which
// no role for people may write, and not EvictionRequests, which every editor of a namespace may; and why no claimed time
// reaches further than OtherMemory from now. Only server-side apply counts, which a controller of this API uses, and plain
// updates by the names that upstream may write under: an administrator's kubectl edit must not stop all evictions, and
// neither must a responder that applies a status as a whole.
func FindOther(e *api.Eviction, now time.Time) (Other, bool) {
	var last Other
	for _, m := range e.ManagedFields {
		seen, ok := signTime(m.Time, now)
		if ok && m.Subresource == "status" && m.Manager != FieldManager && seen.After(last.Seen) &&
			likeController(m) && ownsControllerFields(m) {
			last = Other{Manager: m.Manager, Seen: seen}
		}
	}
	return last, last.Manager != ""
}

// signTime returns the time of a sign, which is never after now; false if it cannot be true or is too old to matter.
func signTime(at *metav1.Time, now time.Time) (time.Time, bool) {
	if at == nil || at.After(now.Add(clockError)) || !at.Add(OtherMemory).After(now) {
		return time.Time{}, false
	}
	if at.After(now) {
		return now, true
	}
	return at.Time, true
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

func statusFields(m metav1.ManagedFieldsEntry) fieldTree { return owned(m).child("f:status") }

func owned(m metav1.ManagedFieldsEntry) fieldTree {
	var all fieldTree
	if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &all) != nil {
		return nil
	}
	return all
}

// IntentBy reports whether a request's intent is what one field manager alone wrote.
func IntentBy(r *api.EvictionRequest, manager string) bool {
	by := false
	for _, m := range r.ManagedFields {
		if writesIntent(m) {
			if m.Manager != manager {
				return false
			}
			by = true
		}
	}
	return by
}

func ownsControllerFields(m metav1.ManagedFieldsEntry) bool {
	status := statusFields(m)
	return status.child("f:conditions").has(`k:{"type":"Failed"}`, `k:{"type":"TargetEvicted"}`) &&
		status.has("f:targetResponders") && !speaks(status.child("f:responders"))
}

// speaks reports whether one of the entries is a responder's word.
func speaks(entries fieldTree) bool {
	for name := range entries {
		if entries.child(name).isWord() {
			return true
		}
	}
	return false
}

// isWord reports whether an entry has what only its responder writes.
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
