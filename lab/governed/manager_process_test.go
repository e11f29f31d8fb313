package governed

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// leads returns which of the replicas runs the controllers, by its metrics.
func (h *house) leads(t *testing.T, replicas ...int) int {
	t.Helper()
	for _, i := range replicas {
		if strings.Contains(h.metrics(t, i), `leader_election_master_status{name="usher-manager"} 1`) {
			return i
		}
	}
	t.Fatal("no replica leads")
	return 0
}

func (h *house) metrics(t *testing.T, replica int) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.managers.MetricsURL(replica), nil)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return string(body)
}

// Where Kubernetes does not serve eviction requests, those that Usher brings do the same.
func TestManagerOnAClusterWithoutEvictionRequests(t *testing.T) {
	t.Parallel()
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
