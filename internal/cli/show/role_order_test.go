package show

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// hypervisorOrder is that of a node with the roles of an OpenStack.
func hypervisorOrder() []snapshot.RoleOrder {
	role := func(name string, load bool, after ...string) snapshot.OrderedRole {
		return snapshot.OrderedRole{Role: name, After: after, Load: load, Pods: []*snapshot.Pod{{Namespace: "openstack", Name: name + "-x2x7l", UID: "uid"}}}
	}
	return []snapshot.RoleOrder{{
		Policy: &snapshot.Policy{Namespace: "openstack", Name: "cloud"},
		Roles: []snapshot.OrderedRole{
			role("bgp", true), role("l2", false, "l3", "vm"), role("l3", true, "bgp"), role("ovs", false, "l2", "l3"), role("vm", true),
		},
	}}
}

// Each role is in the tree once with what is below it, on a narrow terminal and through a pipe as well.
func TestOrderLines(t *testing.T) {
	many := hypervisorOrder()
	many[0].Roles = many[0].Roles[:0:0]
	for i, r := range hypervisorOrder()[0].Roles {
		if i == 1 || i == 2 || i == 4 {
			many[0].Roles = append(many[0].Roles, r)
		}
	}
	many[0].Roles[1].After = nil
	for range 5 {
		many[0].Roles[2].Pods = append(many[0].Roles[2].Pods, many[0].Roles[2].Pods[0])
	}
	for name, c := range map[string]struct {
		orders []snapshot.RoleOrder
		width  int
		want   string
	}{
		"none": {nil, 0, ""},
		"through a pipe": {hypervisorOrder(), 0, `
  policy openstack/cloud: what is below a role leaves before it
  ovs: ovs-x2x7l
  ├─ l2: l2-x2x7l
  │  ├─ l3: l3-x2x7l (emptied, stays)
  │  │  └─ bgp: bgp-x2x7l (emptied, stays)
  │  └─ vm: vm-x2x7l (emptied, stays)
  └─ l3 (see above)`},
		"narrow": {hypervisorOrder(), 34, `
  policy openstack/cloud: what is
  below a role leaves before it
  ovs: ovs-x2x7l
  ├─ l2: l2-x2x7l
  │  ├─ l3: l3-x2x7l (emptied,
  │  │  │  stays)
  │  │  └─ bgp: bgp-x2x7l
  │  │     (emptied, stays)
  │  └─ vm: vm-x2x7l (emptied,
  │     stays)
  └─ l3 (see above)`},
		"many pods": {many, 60, `
  policy openstack/cloud: what is below a role leaves before
  it
  l2: l2-x2x7l
  ├─ l3: l3-x2x7l (emptied, stays)
  └─ vm: vm-x2x7l, vm-x2x7l, vm-x2x7l, vm-x2x7l and 2 more
     (emptied, stays)`},
	} {
		t.Run(name, func(t *testing.T) {
			lines := OrderLines(c.orders, c.width)
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), strings.Join(lines, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, line := range lines {
				if cells := ansi.StringWidth(line); c.width > 0 && cells > c.width {
					t.Errorf("%d cells: %q", cells, line)
				}
			}
		})
	}
}

// A plan has the order among its parts, and programs get it as a list.
func TestPlanShowsTheOrderOfRoles(t *testing.T) {
	p := Plan{Nodes: []string{"n1"}, Now: noon, Orders: hypervisorOrder(), Plan: sim.Plan{Outcome: drain.Drained}}
	if text := strings.Join(p.Lines(0, Paint{}), "\n"); !strings.Contains(text, "\n\nOrder of roles\n  policy openstack/cloud: ") {
		t.Errorf("no tree in\n%s", text)
	}
	text, err := p.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Order []orderJSON `json:"order"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := orderJSON{
		Namespace: "openstack", Policy: "cloud", Role: "l2", LeavesAfter: []string{"l3", "vm"}, Pods: []podJSON{{Namespace: "openstack", Name: "l2-x2x7l", UID: "uid"}},
	}
	if len(got.Order) != 5 {
		t.Fatalf("%+v", got.Order)
	}
	if diff := cmp.Diff(want, got.Order[1]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
