package governed

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// mostWrites bounds what Usher writes for one governed eviction by kubectl drain, with one preparation that is taken back when the member
// has come back elsewhere. Leases and Events are not among them, nor what was refused because another write was first.
var mostWrites = map[string]int{
	"create evictionrequests":       1, // admission keeps the requester that it refused
	"patch evictionrequests/status": 1, // how the request stands
	"patch evictions":               1, // the eviction is made
	"patch evictions/status":        4, // its responders; what Usher waits for; the pod is gone; it has ended
	"patch evictionpolicies":        1, // the policy is held: it may have something to take back
	"patch evictionpolicies/status": 4, // begun; permitted; the permit ends and the step is being taken back; it is taken back, and what is seen
}

// countsItsWrites drains the node of one member that needs one preparation, and counts what Usher writes for it.
func (h *house) countsItsWrites(t *testing.T) {
	t.Helper()
	namespace, system := h.lab.Namespace(t), newSystem(t)
	system.setSafe(true)
	node, _ := h.members(t, namespace, 3)
	h.policy(t, namespace, "db", system.spec())
	h.waitGoverned(t, namespace, "db", 3)
	began := time.Now()
	h.drain(t, node).succeed(t)
	h.waitPolicy(t, namespace, "db", "everything to be settled", settled)
	more := int(time.Since(began) / (10 * time.Second)) // while it takes longer, what has changed meanwhile is said every ten seconds at most
	writes := map[string]int{}
	for r, n := range h.lab.Requests(t, "usher/", began) {
		if r.Code < 300 && r.Resource != "events" && slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb) {
			writes[r.Verb+" "+r.Resource] += n
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(writes)) {
		t.Logf("%s: %d", kind, writes[kind])
		most := mostWrites[kind]
		if strings.HasSuffix(kind, "/status") {
			most += more
		}
		if writes[kind] > most {
			t.Errorf("%s: %d, want at most %d", kind, writes[kind], most)
		}
	}
}
