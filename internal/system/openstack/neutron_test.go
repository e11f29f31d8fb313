package openstack_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/test/openstacksim"
)

// networkCloud is a region with agents of all kinds on three hosts.
func networkCloud() *openstacksim.Cloud {
	cloud := openstacksim.New(3)
	cloud.AddAgents("compute-1=ovs,l3,dhcp,bgp", "compute-2=ovs,l3,dhcp,bgp", "compute-3=ovs,l3,dhcp,bgp")
	return cloud
}

// roleBench is a bench of members in a role.
func roleBench(t *testing.T, cloud *openstacksim.Cloud, role string) *bench {
	t.Helper()
	b := simulatedBench(t, cloud)
	b.role = role
	return b
}

// shorts are the agents' short types, by role.
var shorts = map[string]string{"neutron-l3-agent": "l3", "neutron-dhcp-agent": "dhcp", "neutron-bgp-agent": "bgp"}

// The agent is marked before anything moves, keeps its own description behind the mark, and is disabled only once it has nothing. Undone, it is as it was.
func TestAnAgentIsMarkedAndDisabled(t *testing.T) {
	for role, short := range shorts {
		t.Run(role, func(t *testing.T) {
			cloud := networkCloud()
			cloud.ChangeAgent(short, "compute-1", func(a *openstacksim.Agent) { a.Description = "rack 7" })
			id := cloud.Make(short, "one", "compute-1")
			b := roleBench(t, cloud, role)
			if v := b.turn("compute-1"); !slices.Equal(reasons(v), []string{"NotEmpty"}) {
				t.Fatal(said(v))
			}
			if a := cloud.Agent(short, "compute-1"); a.Description != "Usher (policy cloud/usher): what it has is moved to other agents; rack 7" || !a.Up {
				t.Errorf("%+v", a)
			}
			if hosts := cloud.Hosts(id); !slices.Equal(hosts, []string{"compute-1"}) || b.job.ID != "moved 0" {
				t.Errorf("before the job is known: %v, job %+v", hosts, b.job)
			}
			if v := b.run(cloud, "compute-1", 10); v.Answer != eviction.Allowed {
				t.Fatal(said(v))
			}
			if a := cloud.Agent(short, "compute-1"); a.Description != "Usher (policy cloud/usher): it has nothing, and gets nothing; rack 7" || a.Up {
				t.Errorf("%+v", a)
			}
			if hosts := cloud.Hosts(id); len(hosts) != 1 || hosts[0] == "compute-1" {
				t.Errorf("it is on %v", hosts)
			}
			undone := b.undoAll(cloud)
			if a := cloud.Agent(short, "compute-1"); a.Description != "rack 7" || !a.Up {
				t.Errorf("%+v", a)
			}
			if !strings.Contains(undone.Left, "what has left compute-1 stays where it is (1 ") || len(cloud.Hosts(id)) != 1 {
				t.Errorf("left: %s; on %v", undone.Left, cloud.Hosts(id))
			}
		})
	}
}

// undoAll takes a step back to its end.
func (b *bench) undoAll(cloud *openstacksim.Cloud) eviction.Undone {
	b.t.Helper()
	var undone eviction.Undone
	var err error
	for range 20 {
		if undone, err = b.undo("compute-1"); err == nil && undone.Done {
			return undone
		}
		cloud.Advance(10 * time.Second)
	}
	b.t.Fatalf("it is not taken back: %+v, %v", undone, err)
	return undone
}

// What leaves goes to the agents that have the fewest.
func TestRoutersAreSpread(t *testing.T) {
	cloud := networkCloud()
	cloud.Make("l3", "there", "compute-2")
	for i := range 9 {
		cloud.Make("l3", fmt.Sprintf("r%d", i), "compute-1")
	}
	b := roleBench(t, cloud, "neutron-l3-agent")
	if v := b.run(cloud, "compute-1", 20); v.Answer != eviction.Allowed {
		t.Fatal(said(v))
	}
	on := map[string]int{}
	for _, id := range cloud.Things() {
		for _, host := range cloud.Hosts(id) {
			on[host]++
		}
	}
	if on["compute-2"] != 5 || on["compute-3"] != 5 {
		t.Error(on)
	}
}

// A router costs few requests, all listings included.
func TestRequestsPerRouter(t *testing.T) {
	cloud := networkCloud()
	const routers = 60
	for i := range routers {
		cloud.Make("l3", fmt.Sprintf("r%d", i), "compute-1")
	}
	b := roleBench(t, cloud, "neutron-l3-agent")
	if v := b.run(cloud, "compute-1", 40); v.Answer != eviction.Allowed {
		t.Fatal(said(v))
	}
	requests := len(cloud.TakeRequests())
	t.Logf("%d requests for %d routers", requests, routers)
	if requests >= 10*routers {
		t.Errorf("%d requests for %d routers", requests, routers)
	}
}

// Neutron 1: an L3 agent that does not answer keeps the caller waiting. The call is cut, what came of it is looked up, and the agent gets nothing else.
func TestNeutron1ASilentAgentHangs(t *testing.T) {
	cloud := networkCloud()
	first, second := cloud.Make("l3", "a", "compute-1"), cloud.Make("l3", "b", "compute-1")
	cloud.ChangeAgent("l3", "compute-2", func(a *openstacksim.Agent) { a.Mute = true })
	for range 3 {
		cloud.Make("l3", "there", "compute-3")
	}
	b := roleBench(t, cloud, "neutron-l3-agent")
	b.turn("compute-1")
	b.turn("compute-1")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := b.system.Prepare(ctx, b.step("compute-1")); err == nil || !strings.Contains(err.Error(), "to give router a") {
		t.Fatalf("the call says %v", err)
	}
	if hosts := cloud.Hosts(first); !slices.Equal(hosts, []string{"compute-2"}) {
		t.Fatalf("the binding does not stand: %v", hosts)
	}
	cloud.Advance(75 * time.Second)
	cloud.ChangeAgent("l3", "compute-2", func(a *openstacksim.Agent) { a.Alive = false })
	cloud.TakeRequests()
	if v := b.run(cloud, "compute-1", 20); v.Answer != eviction.Allowed {
		t.Fatal(said(v))
	}
	silent := cloud.Agent("l3", "compute-2").ID
	if slices.ContainsFunc(cloud.TakeRequests(), func(r string) bool { return strings.HasPrefix(r, "POST") && strings.Contains(r, silent) }) {
		t.Error("an agent that is not alive is asked")
	}
	for _, id := range []string{first, second} {
		if hosts := cloud.Hosts(id); !slices.Equal(hosts, []string{"compute-3"}) {
			t.Errorf("it is on %v", hosts)
		}
	}
}

// Neutron 2 and 3: a dead DHCP agent accepts networks, so that none is given to it, and what it has moves by itself, which races any move of Usher's.
func TestNeutron3NetworksMoveByThemselves(t *testing.T) {
	cloud := networkCloud()
	id := cloud.Make("dhcp", "lan", "compute-1")
	b := roleBench(t, cloud, "neutron-dhcp-agent")
	b.turn("compute-1")
	cloud.ChangeAgent("dhcp", "compute-1", func(a *openstacksim.Agent) { a.Alive = false })
	if v := b.judge("compute-1"); !slices.Contains(reasons(v), "AgentDown") || needs(v) {
		t.Fatal(said(v))
	}
	if err := b.prepare("compute-1"); err != nil { // as for a host that is off
		t.Fatal(err)
	}
	cloud.Advance(21 * time.Second)
	for range 3 {
		if err := b.prepare("compute-1"); err != nil {
			t.Fatal(err)
		}
	}
	if v := b.judge("compute-1"); v.Answer != eviction.Allowed || !cloud.Served(id) {
		t.Errorf("%s, on %v", said(v), cloud.Hosts(id))
	}
}

// Neutron 4: an agent that is disabled keeps its routers, takes none, and lets go what it has.
func TestNeutron4WhatComesToADisabledAgentIsMovedAsWell(t *testing.T) {
	for role, short := range shorts {
		cloud := networkCloud()
		b := roleBench(t, cloud, role)
		if v := b.run(cloud, "compute-1", 5); v.Answer != eviction.Allowed {
			t.Fatal(role, said(v))
		}
		late := cloud.Make(short, "late", "compute-1")
		if v := b.judge("compute-1"); v.Answer == eviction.Allowed || !needs(v) {
			t.Error(role, said(v))
		}
		if v := b.run(cloud, "compute-1", 5); v.Answer != eviction.Allowed || !cloud.Served(late) {
			t.Errorf("%s: %s, on %v", role, said(v), cloud.Hosts(late))
		}
		if a := cloud.Agent(short, "compute-1"); a.Up {
			t.Errorf("%s: it is enabled in between", role)
		}
	}
}

// Neutron 5: a plain router has one agent, so that it is taken off the one before it is given to another; where that is refused by all it stays.
func TestNeutron5ARefusedRouterStays(t *testing.T) {
	cloud := openstacksim.New(2)
	cloud.AddAgents("compute-1=l3", "compute-2=l3")
	cloud.Refuses = "compute-2"
	id := cloud.Make("l3", "r", "compute-1")
	b := roleBench(t, cloud, "neutron-l3-agent")
	v := b.run(cloud, "compute-1", 4)
	if !slices.Equal(reasons(v), []string{"MoveFailed", "NotEmpty"}) || !strings.Contains(strings.Join(said(v), ""), "Failed scheduling router") {
		t.Error(said(v))
	}
	if hosts := cloud.Hosts(id); !slices.Equal(hosts, []string{"compute-1"}) {
		t.Errorf("it is on %v", hosts)
	}
	cloud.Refuses = ""
	if v := b.run(cloud, "compute-1", 40); v.Answer != eviction.Allowed || !cloud.Served(id) {
		t.Error(said(v))
	}
}

// Neutron 5: a router with HA has only standbys for a moment when the active one is taken off: one at a time fails over, and each is waited for.
func TestNeutron5HARoutersFailOverOneByOne(t *testing.T) {
	cloud := networkCloud()
	var ids []string
	for range 4 {
		ids = append(ids, cloud.Make("l3", "ha", "compute-1", "compute-2"))
	}
	b := roleBench(t, cloud, "neutron-l3-agent")
	for range 40 {
		v := b.turn("compute-1")
		dark := 0
		for _, id := range ids {
			if !cloud.Served(id) {
				dark++
			}
		}
		if dark > 1 || dark > 0 && v.Answer == eviction.Allowed {
			t.Fatalf("%d routers have no active agent, and it is %s", dark, v.Answer)
		}
		if v.Answer == eviction.Allowed {
			break
		}
		cloud.Advance(10 * time.Second)
	}
	for _, id := range ids {
		if hosts := cloud.Hosts(id); !slices.Equal(hosts, []string{"compute-2(active)", "compute-3(standby)"}) && !slices.Equal(hosts, []string{"compute-2(standby)", "compute-3(active)"}) {
			t.Errorf("it is on %v", hosts)
		}
	}
}

// Neutron 5: where a router with HA never becomes active elsewhere the agent does not count as empty, and what it waits for is said.
func TestNeutron5AFailoverThatDoesNotCome(t *testing.T) {
	cloud := networkCloud()
	id := cloud.Make("l3", "ha", "compute-1", "compute-2", "compute-3")
	b := roleBench(t, cloud, "neutron-l3-agent")
	for range 8 { // no time passes
		if v := b.turn("compute-1"); v.Answer == eviction.Allowed {
			t.Fatal("it may go")
		}
	}
	if hosts := cloud.Hosts(id); !slices.Equal(hosts, []string{"compute-2(standby)", "compute-3(standby)"}) {
		t.Fatal(hosts)
	}
	if undone, err := b.undo("compute-1"); undone.Done || err == nil || !strings.Contains(err.Error(), "has no active agent yet") {
		t.Errorf("%+v, %v", undone, err)
	}
}

// Neutron 6 and 8: networks and speakers have another agent before they lose theirs, and as many as before in the end.
func TestNeutron6OthersHaveItFirst(t *testing.T) {
	for role, short := range map[string]string{"neutron-dhcp-agent": "dhcp", "neutron-bgp-agent": "bgp"} {
		cloud := networkCloud()
		alone, shared := cloud.Make(short, "alone", "compute-1"), cloud.Make(short, "shared", "compute-1", "compute-2")
		b := roleBench(t, cloud, role)
		for range 10 {
			v := b.turn("compute-1")
			if !cloud.Served(alone) || !cloud.Served(shared) {
				t.Fatalf("%s: %v, %v", role, cloud.Hosts(alone), cloud.Hosts(shared))
			}
			if v.Answer == eviction.Allowed {
				break
			}
			cloud.Advance(10 * time.Second)
		}
		if !slices.Equal(cloud.Hosts(shared), []string{"compute-2", "compute-3"}) || len(cloud.Hosts(alone)) != 1 {
			t.Errorf("%s: %v, %v", role, cloud.Hosts(alone), cloud.Hosts(shared))
		}
	}
}

// Neutron 7: an agent that was deleted while it lives comes back under another id, without its mark. It is emptied all the same, and what it has lost is looked after.
func TestNeutron7ADeletedAgentComesBack(t *testing.T) {
	cloud := networkCloud()
	id := cloud.Make("l3", "r", "compute-1")
	b := roleBench(t, cloud, "neutron-l3-agent")
	b.turn("compute-1")
	b.turn("compute-1")
	if !strings.Contains(b.job.ID, id) {
		t.Fatalf("%+v", b.job)
	}
	cloud.DeleteAgent("l3", "compute-1")
	cloud.Advance(10 * time.Second)
	if v := b.run(cloud, "compute-1", 10); v.Answer != eviction.Allowed || !cloud.Served(id) {
		t.Errorf("%s, on %v", said(v), cloud.Hosts(id))
	}
}

// Neutron 9: a router without an interface has no agent, and is none of Usher's.
func TestNeutron9RoutersWithoutAgentsAreLeftAlone(t *testing.T) {
	cloud := networkCloud()
	id := cloud.Make("l3", "bare")
	b := roleBench(t, cloud, "neutron-l3-agent")
	if v := b.run(cloud, "compute-1", 5); v.Answer != eviction.Allowed || len(cloud.Hosts(id)) != 0 {
		t.Errorf("%s, on %v", said(v), cloud.Hosts(id))
	}
}

// What nothing else may have keeps its agent, and is named.
func TestWhatHasNowhereToGo(t *testing.T) {
	cloud := networkCloud()
	id, other := cloud.Make("l3", "far", "compute-1"), cloud.Make("l3", "near", "compute-1")
	cloud.ChangeThing(id, func(r *openstacksim.Thing) { r.Zones = []string{"moon"} })
	b := roleBench(t, cloud, "neutron-l3-agent")
	v := b.run(cloud, "compute-1", 5)
	if !slices.Equal(reasons(v), []string{"NoOtherAgent", "NotEmpty"}) || !strings.Contains(strings.Join(said(v), ""), "no other L3 agent in its zones (moon) is alive") {
		t.Error(said(v))
	}
	if !slices.Equal(cloud.Hosts(id), []string{"compute-1"}) || slices.Equal(cloud.Hosts(other), []string{"compute-1"}) {
		t.Errorf("on %v, %v", cloud.Hosts(id), cloud.Hosts(other))
	}
	if a := cloud.Agent("l3", "compute-1"); !a.Up {
		t.Error("it is disabled, and has a router")
	}
}

// A host whose agent is the last one keeps it as it is.
func TestTheLastAgent(t *testing.T) {
	cloud := openstacksim.New(1)
	cloud.AddAgents("compute-1=l3")
	id := cloud.Make("l3", "r", "compute-1")
	b := roleBench(t, cloud, "neutron-l3-agent")
	if v := b.run(cloud, "compute-1", 3); !slices.Equal(reasons(v), []string{"NoOtherAgent", "NotEmpty"}) || needs(v) || cloud.Agent("l3", "compute-1").Description != "" || !cloud.Served(id) {
		t.Error(said(v))
	}
}

// Two hosts that are emptied at the same time give each other nothing.
func TestTwoHostsAtOnce(t *testing.T) {
	cloud := networkCloud()
	for i := range 4 {
		cloud.Make("l3", fmt.Sprintf("a%d", i), "compute-1")
		cloud.Make("l3", fmt.Sprintf("b%d", i), "compute-2")
	}
	one, two := roleBench(t, cloud, "neutron-l3-agent"), roleBench(t, cloud, "neutron-l3-agent")
	for range 10 {
		one.turn("compute-1")
		two.turn("compute-2")
		cloud.Advance(10 * time.Second)
	}
	for _, id := range cloud.Things() {
		if hosts := cloud.Hosts(id); !slices.Equal(hosts, []string{"compute-3"}) {
			t.Errorf("it is on %v", hosts)
		}
	}
}

// An agent that was disabled before stays so when that is taken back.
func TestAnAgentThatWasDisabledBefore(t *testing.T) {
	cloud := networkCloud()
	cloud.ChangeAgent("l3", "compute-1", func(a *openstacksim.Agent) { a.Up = false })
	id := cloud.Make("l3", "r", "compute-1")
	b := roleBench(t, cloud, "neutron-l3-agent")
	if v := b.run(cloud, "compute-1", 8); v.Answer != eviction.Allowed || !cloud.Served(id) {
		t.Fatal(said(v))
	}
	undone := b.undoAll(cloud)
	if a := cloud.Agent("l3", "compute-1"); a.Up || a.Description != "" || !strings.Contains(undone.Left, "openstack network agent set --enable") {
		t.Errorf("%+v, %s", a, undone.Left)
	}
}

// An agent that another policy empties, of another namespace or of the same, is left to it.
func TestAnAgentOfAnotherPolicy(t *testing.T) {
	for _, owner := range []string{"other/usher", "cloud/other"} {
		t.Run(owner, func(t *testing.T) {
			testAnotherOwner(t, "Usher (policy "+owner+"): what it has is moved to other agents")
		})
	}
}

func testAnotherOwner(t *testing.T, mark string) {
	t.Helper()
	cloud := networkCloud()
	cloud.Make("l3", "r", "compute-1")
	cloud.ChangeAgent("l3", "compute-1", func(a *openstacksim.Agent) { a.Description = mark })
	b := roleBench(t, cloud, "neutron-l3-agent")
	if v := b.turn("compute-1"); !slices.Equal(reasons(v), []string{"HostUnknown"}) || needs(v) {
		t.Error(said(v))
	}
	if undone, err := b.undo("compute-1"); err != nil || !undone.Done || cloud.Agent("l3", "compute-1").Description != mark {
		t.Errorf("%+v, %v", undone, err)
	}
}

// A description that has no room for the mark is named, and nothing is moved.
func TestADescriptionWithoutRoom(t *testing.T) {
	cloud := networkCloud()
	id := cloud.Make("l3", "r", "compute-1")
	cloud.ChangeAgent("l3", "compute-1", func(a *openstacksim.Agent) { a.Description = strings.Repeat("x", 250) })
	b := roleBench(t, cloud, "neutron-l3-agent")
	if err := b.prepare("compute-1"); err == nil || !strings.Contains(err.Error(), "is too long by") || !slices.Equal(cloud.Hosts(id), []string{"compute-1"}) {
		t.Error(err)
	}
}
