package governed

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	lifecycle "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// mostWrites bounds what Usher writes for one governed eviction by kubectl drain, with one preparation that is undone when the member has
// come back elsewhere: twelve writes, each with the rule that needs it. Leases and Events are not among them, nor what was refused because
// another write was first. Three of them are not made where the pod's requests and Eviction are collected with it, as they are on a quiet
// machine, before their ends are written.
var mostWrites = map[string]int{
	// A refusal leaves what was asked for: the caller may give up.
	"create evictionrequests": 1,
	// A requester sees how its request stands, and how it has ended (KEP-4563).
	"patch evictionrequests/status": 2,
	// There is one Eviction of a pod, whoever asks for it (KEP-4563).
	"patch evictions": 1,
	// Each of its two parts has one writer: the controller says whose turn it is, and how it has ended; the responder says what it waits
	// for, and that it is through (KEP-4563).
	"patch evictions/status": 4,
	// Only the policy remembers what is to be undone, so it may not vanish with it: the finalizer, which no write of a status can carry.
	"patch evictionpolicies": 1,
	// A preparation is written down before the system is asked for it, and a member's leave before it goes. That it has left, what was
	// prepared is undone and the epoch is another is one thing; what is seen is written with it.
	"patch evictionpolicies/status": 3,
}

// countsItsWrites drains the node of one member that needs one preparation, and counts what Usher writes for it.
func (h *house) countsItsWrites(t *testing.T) {
	t.Helper()
	namespace, system := h.lab.Namespace(t), newSystem(t)
	system.setSafe(true)
	node, pod := h.members(t, namespace, 3)
	h.policy(t, namespace, "db", system.spec())
	h.waitGoverned(t, namespace, "db", 3)
	began := time.Now()
	changes := h.statusChanges(t, namespace)
	h.drain(t, node).succeed(t)
	h.waitPolicy(t, namespace, "db", "everything to be settled", settled)
	open := func(e *lifecycle.Eviction) bool {
		return !meta.IsStatusConditionTrue(e.Status.Conditions, string(lifecycle.EvictionConditionTargetEvicted))
	}
	testlab.WaitFor(t, h.lab.Lifecycle(t).Evictions(namespace), "the eviction to end, or to be collected with its pod",
		func(all []*lifecycle.Eviction) bool { return !slices.ContainsFunc(all, open) })
	if diff := cmp.Diff([]string{"exclude/" + pod, "include/" + pod}, system.said()); diff != "" {
		t.Errorf("what the system was asked for: %s", diff)
	}
	more := int(time.Since(began) / (10 * time.Second)) // while it takes longer, what has changed meanwhile is said every ten seconds at most
	writes := map[string]int{}
	for r, n := range h.lab.Requests(t, "usher/", began) {
		if r.Code < 300 && r.Resource != "events" && slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb) {
			writes[r.Verb+" "+r.Resource] += n
		}
	}
	statuses := changes()
	for _, kind := range slices.Sorted(maps.Keys(writes)) {
		t.Logf("%s: %d", kind, writes[kind])
		most := mostWrites[kind]
		if strings.HasSuffix(kind, "/status") {
			most += more
		}
		if writes[kind] > most {
			t.Errorf("%s: %d, want at most %d; the policy's status: %s", kind, writes[kind], most, strings.Join(statuses, "\n"))
		}
	}
}

// statusChanges watches the policies of a namespace. What it returns ends that, and says what has changed from one version to the next.
func (h *house) statusChanges(t *testing.T, namespace string) func() []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var changes []string
	var last *v1alpha1.EvictionPolicy
	var watching sync.WaitGroup
	watching.Go(func() {
		source := await.Source[*v1alpha1.EvictionPolicy]{Client: h.policies, Resource: "evictionpolicies", Namespace: namespace}
		_ = await.Until(ctx, source, func(all []*v1alpha1.EvictionPolicy) bool {
			if len(all) == 1 && last != nil {
				changes = append(changes, cmp.Diff(last.Status, all[0].Status))
			}
			if len(all) == 1 {
				last = all[0].DeepCopy()
			}
			return false
		})
	})
	return func() []string {
		cancel()
		watching.Wait()
		return changes
	}
}
