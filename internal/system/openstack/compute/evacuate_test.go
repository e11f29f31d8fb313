package compute_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system/openstack/compute"
)

// dead is a look at host h, which is off, marked as down and disabled.
func dead(servers []compute.Server, migrations ...compute.Migration) compute.Look {
	l := look(servers, migrations...)
	l.Hypervisors[0].Up, l.Hypervisors[0].Forced = false, true
	return l
}

func evacuation(id int64, server, status string) compute.Migration {
	return migration(id, server, compute.KindEvacuation, status)
}

func evacuate(id string, after int64) compute.Call {
	return compute.Call{Do: compute.Evacuate, Server: id, Name: id, After: after}
}

func TestEvacuate(t *testing.T) {
	type servers = []compute.Server
	for name, c := range map[string]struct {
		look compute.Look
		want compute.Evacuation
	}{
		"nothing is on it": {dead(nil), compute.Evacuation{}},
		"Nova hears of it": {
			with(dead(servers{server("a", "active")}), func(l *compute.Look) { l.Hypervisors[0].Up = true }), compute.Evacuation{Up: true},
		},
		"it is not marked as down": {
			with(dead(servers{server("a", "active")}), func(l *compute.Look) { l.Hypervisors[0].Forced = false }), compute.Evacuation{Force: true, Left: 1},
		},
		"it may get servers yet": {
			with(dead(nil), func(l *compute.Look) { l.Hypervisors[0].Enabled = true }), compute.Evacuation{Force: true},
		},
		"there is no such host": {
			with(dead(nil), func(l *compute.Look) { l.Host = "x" }), compute.Evacuation{Problem: "OpenStack has no compute host x in this region"},
		},
		"no other host takes servers": {
			with(dead(servers{server("a", "active")}), func(l *compute.Look) { l.Hypervisors[1].Up = false }), compute.Evacuation{Left: 1},
		},
		"Nova 10: servers are rebuilt elsewhere, whatever is being done with them: on a dead host that hangs": {
			dead(servers{server("a", "active"), server("b", "stopped"), with(server("c", "active"), func(s *compute.Server) { s.Task = "powering-on" })}),
			compute.Evacuation{Left: 3, Next: []compute.Call{evacuate("a", 0), evacuate("b", 0), evacuate("c", 0)}},
		},
		"one that a cold migration had brought to the host when that died is not: its disk is where it came from": {
			dead(servers{with(server("a", "active"), func(s *compute.Server) { s.Task = "resize_finish" }), with(server("b", "stopped"), func(s *compute.Server) { s.Task = "resize_migrated" })}),
			compute.Evacuation{Left: 2, Stuck: []string{
				"a was being brought here by a cold migration or a resize (resize_finish), and the host that it came from has its disk yet: bring this host back; where disks are on shared storage, openstack server set --state active a has it evacuated",
				"b was being brought here by a cold migration or a resize (resize_migrated), and the host that it came from has its disk yet: bring this host back; where disks are on shared storage, openstack server set --state active b has it evacuated",
			}},
		},
		"one that is on its way is not asked for again": {
			dead(servers{server("a", "active"), server("b", "active")}, evacuation(3, "a", "pre-migrating")),
			compute.Evacuation{Left: 2, Moving: []string{"a evacuation to other: migration 3 is pre-migrating"}, Next: []compute.Call{evacuate("b", 0)}},
		},
		"Nova 6: one that is done, and whose host has not changed yet, is not either": {
			dead(servers{server("a", "active")}, evacuation(3, "a", "done")),
			compute.Evacuation{Left: 1, Moving: []string{"a evacuation to other: migration 3 is done"}},
		},
		"one that was asked for, and does not show yet, is not either": {
			with(dead(servers{server("a", "active")}), func(l *compute.Look) { l.Asked = map[string]compute.Ask{"a": {Time: now.Add(-time.Second)}} }),
			compute.Evacuation{Left: 1, Moving: []string{"a was asked for, and does not show yet"}},
		},
		"an evacuation of an earlier loss is another one": {
			dead(servers{server("a", "active")}, evacuation(1, "a", "completed")),
			compute.Evacuation{Left: 1, Next: []compute.Call{evacuate("a", 0)}},
		},
		"one that has failed a moment ago waits": {
			dead(servers{server("a", "error")}, with(evacuation(3, "a", "error"), func(m *compute.Migration) { m.Destination = "" })),
			compute.Evacuation{Left: 1, Failed: []string{"a stayed: Nova found no valid host for it (migration 3: error); asked for again at 12:04:00Z"}},
		},
		"one that has failed is asked for again": {
			dead(servers{server("a", "error")}, with(evacuation(3, "a", "failed"), func(m *compute.Migration) { m.Changed = now.Add(-compute.Again) })),
			compute.Evacuation{Left: 1, Next: []compute.Call{evacuate("a", 3)}},
		},
		"one that is in the state error since an evacuation failed in an earlier loss is blocked by no policy": {
			dead(servers{server("a", "error")}, with(evacuation(1, "a", "failed"), func(m *compute.Migration) { m.Changed = now.Add(-compute.Again) })),
			compute.Evacuation{Left: 1, Next: []compute.Call{evacuate("a", 0)}},
		},
		"one that was under way before the step began is on its way, whoever asked for it": {
			dead(servers{server("a", "active"), server("b", "active")}, evacuation(1, "a", "pre-migrating"), evacuation(2, "b", "done")),
			compute.Evacuation{Left: 2, Moving: []string{"a evacuation to other: migration 1 is pre-migrating", "b evacuation to other: migration 2 is done"}},
		},
		"one is on its way to a host that is down as well": {
			with(dead(servers{server("a", "active"), server("b", "active")}, evacuation(3, "a", "pre-migrating")), func(l *compute.Look) {
				l.Hypervisors = append(l.Hypervisors, compute.Hypervisor{Host: "third", Up: true, Enabled: true})
				l.Hypervisors[1].Up = false
			}),
			compute.Evacuation{
				Left: 2, Next: []compute.Call{evacuate("b", 0)},
				Stuck: []string{"a is being rebuilt on other (migration 3 is pre-migrating), which does not report to Nova either: bring its nova-compute back, or see that other is off, then openstack server evacuate a"},
			},
		},
		"one that was being moved may run at the destination already": {
			dead(servers{with(server("a", "active"), func(s *compute.Server) { s.Task = "migrating" })}, migration(3, "a", "live-migration", "running")),
			compute.Evacuation{Left: 1, Stuck: []string{"a may run on other already, to which migration 3 was moving it: see on that host that it does not (virsh list --all), then openstack server set --state active a"}},
		},
		"its state was set by a person, who has looked, or its host has started since": {
			dead(servers{server("a", "active")}, migration(3, "a", "live-migration", "running")),
			compute.Evacuation{Left: 1, Next: []compute.Call{evacuate("a", 0)}},
		},
		"a person has evacuated it, who has looked": {
			dead(servers{with(server("a", "active"), func(s *compute.Server) { s.Task = "migrating" })}, migration(3, "a", "live-migration", "running"), evacuation(4, "a", "pre-migrating")),
			compute.Evacuation{Left: 1, Moving: []string{"a evacuation to other: migration 4 is pre-migrating"}},
		},
		"which has failed": {
			dead(servers{with(server("a", "error"), func(s *compute.Server) { s.Task = "migrating" })}, migration(3, "a", "live-migration", "running"), with(evacuation(4, "a", "failed"), func(m *compute.Migration) { m.Changed = now.Add(-compute.Again) })),
			compute.Evacuation{Left: 1, Next: []compute.Call{evacuate("a", 4)}},
		},
		"a live migration that has not begun does not count, nor one that has ended, nor one of another server": {
			dead(servers{server("a", "active"), server("b", "active"), server("c", "active")}, migration(3, "a", "live-migration", "queued"), migration(4, "b", "live-migration", "error"),
				migration(5, "d", "live-migration", "running")),
			compute.Evacuation{Left: 3, Next: []compute.Call{evacuate("a", 0), evacuate("b", 0), evacuate("c", 0)}},
		},
		"one whose evacuation has put it into a state that may stay does not stay": {
			with(dead(servers{server("a", "error"), server("b", "error")}, with(evacuation(1, "a", "error"), func(m *compute.Migration) { m.Changed = now.Add(-compute.Again) })),
				func(l *compute.Look) { l.Modes.Error = v1alpha1.ServerStay }),
			compute.Evacuation{Left: 1, Stay: []string{"b error"}, Next: []compute.Call{evacuate("a", 0)}},
		},
		"what Nova does not evacuate is named": {
			dead(servers{server("a", "suspended"), server("b", "rescued"), server("c", "error")}),
			compute.Evacuation{Left: 3, Stuck: []string{
				"a is suspended, its memory is lost with the host, and Nova evacuates no such server: openstack server set --state active a has it evacuated",
				"b is rescued, and Nova evacuates no such server: openstack server set --state active b has it evacuated",
				"c is error, and servers.error of the policy is Block: openstack server evacuate c, or let the policy move such servers",
			}},
		},
		"the policy lets some stay": {
			with(dead(servers{server("a", "stopped")}), func(l *compute.Look) { l.Modes.Stopped = v1alpha1.ServerStay }),
			compute.Evacuation{Stay: []string{"a stopped"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.look.Evacuate(2), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// No more than so many are on their way at the same time.
func TestEvacuationsAtOnce(t *testing.T) {
	var servers []compute.Server
	for i := range 15 {
		servers = append(servers, server(string(rune('a'+i)), "active"))
	}
	l := dead(servers, evacuation(3, "a", "accepted"), evacuation(4, "b", "accepted"))
	if e := l.Evacuate(2); len(e.Next) != 8 || e.Left != 15 {
		t.Errorf("%d are asked for, of %d", len(e.Next), e.Left)
	}
}

// A host that was evacuated is given back once Nova has cleaned up there.
func TestReturn(t *testing.T) {
	for name, c := range map[string]struct {
		look compute.Look
		want compute.Return
	}{
		"nothing was evacuated": {dead(nil), compute.Return{Unforce: true}},
		"it is not marked as down": {
			with(dead(nil), func(l *compute.Look) { l.Hypervisors[0].Forced = false }), compute.Return{},
		},
		"its service was deleted": {with(dead(nil), func(l *compute.Look) { l.Host = "x" }), compute.Return{}},
		"it has several hypervisors by now": {
			with(dead(nil, evacuation(3, "a", "done")), func(l *compute.Look) { l.Hypervisors = append(l.Hypervisors, l.Hypervisors[0]) }),
			compute.Return{Unforce: true, Runs: []string{"server a has left for other, and nova-compute on h has to start and to clean up what is left of it there"}},
		},
		"its nova-compute has not started": {
			dead(nil, evacuation(3, "a", "done")),
			compute.Return{Unforce: true, Runs: []string{"server a has left for other, and nova-compute on h has to start and to clean up what is left of it there"}},
		},
		"a server is on its way": {
			dead(nil, evacuation(3, "a", "migrating")), compute.Return{Unforce: true, Runs: []string{"server a evacuation to other: migration 3 is migrating"}},
		},
		"one was under way before the step began": {
			dead(nil, evacuation(1, "a", "done"), evacuation(2, "b", "accepted")),
			compute.Return{Unforce: true, Runs: []string{
				"server a has left for other, and nova-compute on h has to start and to clean up what is left of it there",
				"server b evacuation to other: migration 2 is accepted",
			}},
		},
		"all is cleaned up": {
			dead(nil, evacuation(3, "a", "completed"), evacuation(4, "b", "failed"), evacuation(1, "c", "completed"), migration(5, "d", "live-migration", "completed")),
			compute.Return{Unforce: true, Left: "servers that were evacuated off h stay where they are: a (on other)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.look.Return(2), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
