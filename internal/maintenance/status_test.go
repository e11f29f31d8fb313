package maintenance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
)

// What tenants name is cut: an object that is too large is refused as a whole.
func TestTextsAreCut(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	in := Input{
		Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", at("n1", draining, 0))}, Nodes: []*Node{node("n1", taken("draining"))},
		Drains: map[string]*Drain{"n1": {Begun: true, PodCount: 1, Blockers: []drain.Blocker{{Reason: drain.TwoBudgets, Message: long, Remedy: long, Dead: true}}}},
	}
	status := Decide(in).Statuses["m"]
	said, err := json.Marshal(status)
	if err != nil || len(said) > 6<<10 || len(status.Nodes[0].Blockers) != 1 {
		t.Errorf("a status of %d bytes, %v", len(said), err)
	}
}

// A maintenance all of whose nodes are objected to fits into an object, whatever tenants name, and its nodes are looked at all the same: one that
// nothing objects to is begun.
func TestStatusOfManyNodesFits(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	m := maintenance("m")
	in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m}, Drains: map[string]*Drain{}}
	for i := range MostNodes {
		in.Nodes = append(in.Nodes, node(fmt.Sprintf("ip-10-0-%03d-%03d.eu-central-1.compute.internal", i/250, i%250)))
	}
	const turn = 4321
	free := in.Nodes[turn].Name
	for _, n := range in.Nodes[:mostUntouched] {
		at(n.Name, draining, 0)(m)
	}
	objected := Drain{Checks: true, Checked: true}
	for range mostBlockers {
		objected.Blockers = append(objected.Blockers, drain.Blocker{Reason: drain.LocalStorage, Message: long, Remedy: long, Dead: true})
	}
	for _, n := range in.Nodes[:mostUntouched] {
		in.Drains[n.Name] = &objected
	}
	largest, blocked := 0, int32(0)
	for range 5 {
		decision := Decide(in)
		if status := decision.Statuses["m"]; status != nil {
			said, err := json.Marshal(status)
			if err != nil {
				t.Fatal(err)
			}
			largest, blocked, m.Status = max(largest, len(said)), max(blocked, status.Counts.Blocked), *status
		}
		in.Drains = map[string]*Drain{}
		for _, o := range decision.Orders {
			in.Drains[o.Node] = new(objected)
			if o.Node == free {
				in.Drains[free] = unobjected
			}
		}
	}
	if largest > 1<<20 {
		t.Errorf("a status of %d bytes, with %d nodes", largest, len(m.Status.Nodes))
	}
	if blocked != turn { // those before it: then there is no room for others
		t.Errorf("%d nodes are counted as blocked before one is begun", blocked)
	}
	want := v1alpha1.NodeCounts{Draining: 1, Blocked: mostUntouched, Planned: MostNodes - 1 - mostUntouched}
	if diff := cmp.Diff(want, m.Status.Counts); diff != "" || entryOf(m.Status.Nodes, free) == nil {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// A node in work that has to wait for room says so, counts as planned, and is not said to be drained.
func TestNodeWaitsForRoom(t *testing.T) {
	in := Input{
		Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", of("n1", "n2"), at("n1", draining, 0), at("n2", draining, 0))},
		Nodes: []*Node{node("n1"), node("n2")}, Drains: map[string]*Drain{"n1": unobjected, "n2": unobjected},
	}
	decision := Decide(in)
	status := decision.Statuses["m"]
	want := []v1alpha1.MaintenanceBlocker{{
		Reason: "NodeWaitsItsTurn", Message: "as many nodes or zones are out of service as spec.concurrency of NodeMaintenance m allows: node n1 (NodeMaintenance m)",
		Remedy: "wait until one of them is given back, or raise spec.concurrency of NodeMaintenance m",
	}}
	if diff := cmp.Diff(want, status.Nodes[1].Blockers); diff != "" {
		t.Errorf("blockers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(v1alpha1.NodeCounts{Planned: 1, Draining: 1}, status.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	for _, c := range decision.Conditions {
		if waits := len(c.Set) == 1 && c.Set[0].Type == corev1.NodeMaintenancePlanned; waits != (c.Node == "n2") {
			t.Errorf("conditions of %s: %v", c.Node, c.Set)
		}
	}
}
