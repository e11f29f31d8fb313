package arangosim

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const shard = "_system/c/sc0"

func deployment() *Cluster {
	c := New(Config{Agents: 3, DBServers: 3, Coordinators: 1})
	c.AddCollection("c", 2, []string{"PRMR-a", "PRMR-b"})
	return c
}

func shutDown(id string) func(*Cluster) {
	return func(c *Cluster) {
		request := httptest.NewRequestWithContext(context.Background(), http.MethodDelete, c.Address(id)+"/_admin/shutdown", http.NoBody)
		c.ServeHTTP(httptest.NewRecorder(), request)
	}
}

// An agent that is asked to shut down comes back with its disk, as a follower of another.
func TestShutdown(t *testing.T) {
	c := deployment()
	leader := c.AgencyLeader()
	shutDown(leader)(c)
	if got := c.Restarting(); c.AgencyLeader() != leader || !slices.Equal(got, []string{leader}) {
		t.Errorf("before the next tick %q leads and %v restart", c.AgencyLeader(), got)
	}
	for range 4 {
		c.Tick()
		if next := c.AgencyLeader(); next == leader || next == "" || !c.Quorum() {
			t.Errorf("%q leads", next)
		}
	}
	if got := c.Restarting(); len(got) > 0 {
		t.Errorf("%v restart for ever", got)
	}
	c.Elect(leader)
	if got := c.AgencyLeader(); got != leader {
		t.Errorf("%q leads, and %s was elected", got, leader)
	}
}

func TestTruth(t *testing.T) {
	write := func(c *Cluster) { c.Write(shard) }
	kill := func(id string) func(*Cluster) { return func(c *Cluster) { c.Kill(id) } }
	cases := []struct {
		name     string
		happens  []func(*Cluster)
		member   string
		lose     bool
		withDisk bool
	}{
		{"two copies", nil, "PRMR-a", false, false},
		{"two copies, written", []func(*Cluster){write}, "PRMR-a", false, false},
		{"the other copy has missed a write", []func(*Cluster){kill("PRMR-b"), write}, "PRMR-a", true, true},
		{"the one that has missed a write", []func(*Cluster){kill("PRMR-b"), write}, "PRMR-b", false, false},
		{"the other is down and has everything", []func(*Cluster){kill("PRMR-b")}, "PRMR-a", false, false},
		{"the other's disk is lost", []func(*Cluster){func(c *Cluster) { c.Wipe("PRMR-b") }}, "PRMR-a", true, true},
		{"no copy", nil, "PRMR-c", false, false},
		{"an agent of three", nil, "AGNT-a", false, false},
		{"an agent of two that are left", []func(*Cluster){kill("AGNT-c")}, "AGNT-b", true, true},
		{"the agent that is dead", []func(*Cluster){kill("AGNT-c")}, "AGNT-c", false, false},
		{"another agent is behind", []func(*Cluster){func(c *Cluster) { c.Stall("AGNT-c", true); c.Set("x", 1) }}, "AGNT-b", false, true},
		{"another agent is cut off", []func(*Cluster){func(c *Cluster) { c.Isolate("AGNT-c", true) }}, "AGNT-b", true, true},
		{"an agent while another shuts down", []func(*Cluster){shutDown("AGNT-a")}, "AGNT-b", true, true},
		{"an agent while another restarts", []func(*Cluster){shutDown("AGNT-a"), (*Cluster).Tick, (*Cluster).Tick}, "AGNT-b", true, true},
		{"an agent when another is back", []func(*Cluster){shutDown("AGNT-a"), (*Cluster).Tick, (*Cluster).Tick, (*Cluster).Tick, (*Cluster).Tick}, "AGNT-b", false, false},
		{"the agent that shuts down", []func(*Cluster){shutDown("AGNT-a")}, "AGNT-a", false, false},
		{"a coordinator", nil, "CRDN-a", false, false},
		{"an unknown server", nil, "x", false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			sim := deployment()
			for _, happen := range c.happens {
				happen(sim)
			}
			lose, why := sim.WouldLose(c.member)
			withDisk, whyDisk := sim.WouldLoseWithDisk(c.member)
			if lose != c.lose || withDisk != c.withDisk {
				t.Errorf("would lose %t (%s), with its disk %t (%s); want %t and %t", lose, why, withDisk, whyDisk, c.lose, c.withDisk)
			}
		})
	}
}

// A leader fails, its follower leads, a third server gets a copy, and what was acknowledged is still there.
func TestLifeGoesOn(t *testing.T) {
	c := deployment()
	if !c.Write(shard) {
		t.Fatal("a healthy shard takes no write")
	}
	c.Kill("PRMR-a")
	if c.Write(shard) {
		t.Error("a shard whose leader is dead takes a write")
	}
	for range 20 {
		c.Tick()
	}
	if !c.Write(shard) {
		t.Error("a shard that has failed over takes no write")
	}
	if lose, why := c.WouldLose("PRMR-b"); lose {
		t.Errorf("no third copy was made: %s", why)
	}
	c.Wipe("PRMR-a")
	c.Wipe("PRMR-b")
	if diff := cmp.Diff([]string(nil), c.Lost()); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	c.Wipe("PRMR-c")
	if diff := cmp.Diff([]string{shard}, c.Lost()); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
}

// In an active failover deployment followers are a tick behind: what the leader took with it is remembered as lost.
func TestFailoverLosesWhatWasNotCopied(t *testing.T) {
	c := New(Config{Agents: 3, Singles: 2})
	c.Write("")
	if lose, _ := c.WouldLose("SNGL-a"); !lose {
		t.Error("the follower cannot have the write yet")
	}
	c.Kill("SNGL-a")
	for range 12 {
		c.Tick()
	}
	if !c.Write("") {
		t.Fatal("no server took over")
	}
	if diff := cmp.Diff([]string{""}, c.Lost()); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
}

// A write to an active failover deployment is its leader's alone until the followers have it, and one that was away may have less for longer.
func TestUnreplicatedWrites(t *testing.T) {
	c := New(Config{Agents: 3, Singles: 3})
	leader, second, third := ID("SNGL", 0), ID("SNGL", 1), ID("SNGL", 2)
	want := func(when string, alone ...string) {
		t.Helper()
		for _, id := range []string{leader, second, third} {
			if got := c.Unreplicated(id); got != slices.Contains(alone, id) || c.LeadsSingles(id) != (id == leader) {
				t.Errorf("%s: %s has a write alone: %t, and leads: %t", when, id, got, c.LeadsSingles(id))
			}
		}
	}
	want("at first")
	c.Write("")
	want("before the followers have it", leader)
	c.Kill(third)
	c.Tick()
	want("one follower has it")
	c.Write("")
	c.Tick()
	c.Restart(third)
	c.Kill(leader)
	want("the one that was away has not", second)
}
