package governed

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/testlab"
)

// A replica that is asked to end gives the lease back at once, and the other takes over without waiting for it to run out.
func (h *house) handsOver(t *testing.T) {
	t.Helper()
	leader := h.leads(t, 0, 1)
	before := h.lease(t)
	h.managers.Stop(t, leader)
	if after := h.lease(t); after == before {
		t.Errorf("%s still holds the lease although it has ended", after)
	}
	if log := h.managers.Log(t, leader); strings.Contains(log, "panic") {
		t.Errorf("the replica that was asked to end has logged:\n%s", log)
	}
	namespace, system := h.lab.Namespace(t), newSystem(t)
	h.members(t, namespace, 3)
	h.policy(t, namespace, "db", system.spec())
	h.waitGoverned(t, namespace, "db", 3)
	h.managers.Start(t, leader)
	h.managers.WaitReady(t, leader)
}

func (h *house) lease(t *testing.T) string {
	t.Helper()
	lease, err := h.lab.Client().CoordinationV1().Leases("usher-system").Get(t.Context(), "usher-manager", metav1.GetOptions{})
	must(t, err)
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// leads waits until one of the replicas runs the controllers, and returns which one, by its metrics.
// A replica that has just taken the lease says so in its metrics a moment later, and one that has just been killed does not answer: the metrics are asked until one leads.
func (h *house) leads(t *testing.T, replicas ...int) int {
	t.Helper()
	leader := -1
	found := func(ctx context.Context) (bool, error) {
		leader = slices.IndexFunc(replicas, func(i int) bool {
			text, err := h.managers.Metrics(ctx, i)
			return err == nil && strings.Contains(text, `leader_election_master_status{name="usher-manager"} 1`)
		})
		return leader >= 0, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, found); err != nil {
		t.Fatalf("no replica leads: %v", err)
	}
	return replicas[leader]
}

func (h *house) metrics(t *testing.T, replica int) string {
	t.Helper()
	text, err := h.managers.Metrics(t.Context(), replica)
	must(t, err)
	return text
}

// Where Kubernetes does not serve eviction requests, those that Usher brings do the same.
func TestManagerOnAClusterWithoutEvictionRequests(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes minutes: make test-all runs it")
	}
	h := newHouse(t, 1, testlab.WithoutEvictionRequestAPI())
	namespace, system := h.lab.Namespace(t), newSystem(t)
	node, pod := h.members(t, namespace, 3)
	h.policy(t, namespace, "db", system.spec())
	h.waitGoverned(t, namespace, "db", 3)
	drain := h.drain(t, node)
	h.waitPolicy(t, namespace, "db", "the member to be prepared", prepared(1, v1alpha1.PreparationBegun))
	uid := h.uid(t, namespace, pod)
	system.setSafe(true)
	drain.succeed(t)
	h.waitPolicy(t, namespace, "db", "everything to be settled", settled)
	want := []string{"exclude/" + pod, "include/" + pod}
	if diff := cmp.Diff(want, slices.Compact(system.said())); diff != "" { // an answer that comes too late is asked for again
		t.Errorf("what the system was asked for: %s", diff)
	}
	if h.uid(t, namespace, pod) == uid {
		t.Error("the pod has not gone")
	}
}
