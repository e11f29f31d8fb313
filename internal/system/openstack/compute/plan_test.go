package compute_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system/openstack/compute"
)

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// two are host h, which is disabled, and another that takes servers.
func two(servers ...compute.Server) []compute.Hypervisor {
	return []compute.Hypervisor{
		{Service: "s-h", Host: "h", Up: true, Servers: servers}, {Service: "s-other", Host: "other", Up: true, Enabled: true},
	}
}

func look(servers []compute.Server, migrations ...compute.Migration) compute.Look {
	return compute.Look{
		Now: now, Host: "h", Hypervisors: two(servers...), Listed: true, Servers: servers, Migrations: migrations, User: "usher", AtOnce: 1,
	}
}

func server(id, state string) compute.Server { return compute.Server{ID: id, State: state} }

func migration(id int64, server, kind, status string) compute.Migration {
	return compute.Migration{ID: id, Server: server, Kind: kind, Status: status, Source: "h", Destination: "other", User: "usher", Changed: now.Add(-time.Minute)}
}

// with changes a value.
func with[T any](value T, change func(*T)) T {
	change(&value)
	return value
}

func live(id string, after int64) compute.Call {
	return compute.Call{Do: compute.LiveMigrate, Server: id, Name: id, After: after}
}

func TestPlan(t *testing.T) {
	type servers = []compute.Server
	tests := map[string]struct {
		look compute.Look
		want compute.Plan
	}{
		"nothing is on it": {look(nil), compute.Plan{Empty: true}},
		"it may get servers yet": {
			with(look(servers{server("a", "active")}), func(l *compute.Look) { l.Hypervisors[0].Enabled, l.Listed = true, false }),
			compute.Plan{Servers: []string{"a"}, Left: 1, Work: 1},
		},
		"enabled and without servers it is not empty: the next may come any moment": {
			with(look(nil), func(l *compute.Look) { l.Hypervisors[0].Enabled, l.Listed = true, false }), compute.Plan{Work: 1},
		},
		"servers leave by their states": {
			with(look(servers{server("a", "active"), server("b", "paused"), server("c", "stopped")}), func(l *compute.Look) { l.AtOnce = 2 }),
			compute.Plan{
				Servers: []string{"a active", "b paused", "c stopped"}, Left: 3, Work: 3,
				Next: []compute.Call{live("a", 0), live("b", 0), {Do: compute.ColdMigrate, Server: "c", Name: "c"}},
			},
		},
		"two more than move at once are handed to Nova": {
			look(servers{server("a", "active"), server("b", "active"), server("c", "active"), server("d", "active")}),
			compute.Plan{
				Servers: []string{"a active", "b active", "c active", "d active"}, Left: 4, Work: 4,
				Next: []compute.Call{live("a", 0), live("b", 0), live("c", 0)},
			},
		},
		"as many again where that is more": {
			with(look(servers{
				server("a", "active"), server("b", "active"), server("c", "active"), server("d", "active"), server("e", "active"), server("f", "active"), server("g", "active"),
			}), func(l *compute.Look) { l.AtOnce = 3 }),
			compute.Plan{
				Servers: []string{"a active", "b active", "c active", "d active", "e active", "f active", "g active"}, Left: 7, Work: 7,
				Next: []compute.Call{live("a", 0), live("b", 0), live("c", 0), live("d", 0), live("e", 0), live("f", 0)},
			},
		},
		"and no more while those are on their way, whoever asked for them": {
			look(servers{server("a", "active"), server("b", "active"), server("c", "active"), server("d", "active")},
				migration(7, "a", "live-migration", "running"), with(migration(8, "b", "live-migration", "queued"), func(m *compute.Migration) { m.User = "other" }),
				migration(9, "c", "live-migration", "queued")),
			compute.Plan{
				Servers: []string{"a active", "b active", "c active", "d active"}, Left: 4, Work: 3,
				Moving: []string{
					"a live-migration to other: migration 7 is running", "b live-migration to other: migration 8 is queued", "c live-migration to other: migration 9 is queued",
				},
			},
		},
		"what Nova does not move is named, with what to do": {
			look(servers{
				server("a", "suspended"), server("b", "error"), server("c", "resized"), server("d", "rescued"), server("e", "shelved"), server("f", "soft-delete"),
				server("g", "building"), server("h", "new word"),
			}),
			compute.Plan{
				Servers: []string{
					"a suspended", "b error", "c resized", "d rescued", "e shelved", "f soft-delete", "g building", `h "new word"`,
				},
				Left: 8,
				Stuck: []string{
					"a is suspended, and Nova moves no such server: openstack server resume a",
					"b is in the state error: openstack server set --state active b, once it is known to run, or delete it",
					"c waits for its resize to be confirmed: openstack server resize confirm c, or revert",
					"d is rescued, and Nova moves no such server: openstack server unrescue d",
					"e is shelved, with its disk still here: openstack server shelve --offload e",
					"f is deleted, and can be brought back until Nova reclaims it: wait for that, or openstack server delete --force f",
					"g is being built: wait until it is; if that does not end, openstack server delete g",
					`h is "new word", and Nova moves no such server: openstack server show h`,
				},
			},
		},
		"the policy says what is done with a state": {
			with(look(servers{server("a", "active"), server("b", "stopped"), server("c", "suspended"), server("d", "resized"), server("e", "paused"), server("f", "error")}),
				func(l *compute.Look) {
					l.AtOnce = 2
					l.Modes = v1alpha1.ServersByState{
						Active: v1alpha1.ServerColdMigrate, Stopped: v1alpha1.ServerStay, Suspended: v1alpha1.ServerStay, Resized: v1alpha1.ServerConfirm,
						Paused: v1alpha1.ServerBlock, Error: v1alpha1.ServerStay,
					}
				}),
			compute.Plan{
				Servers: []string{"a active", "b stopped", "c suspended", "d resized", "e paused", "f error"}, Left: 3, Work: 2,
				Stay:  []string{"b stopped", "c suspended", "f error"},
				Stuck: []string{"e is paused, and servers.paused of the policy is Block: move it by hand, or let the policy move such servers"},
				Next:  []compute.Call{{Do: compute.ColdMigrate, Server: "a", Name: "a"}, {Do: compute.Confirm, Server: "d", Name: "d"}},
			},
		},
		"with none but such as stay it is empty": {
			with(look(servers{server("b", "stopped")}), func(l *compute.Look) { l.Modes.Stopped = v1alpha1.ServerStay }),
			compute.Plan{Servers: []string{"b stopped"}, Stay: []string{"b stopped"}, Empty: true},
		},
		"one that is in the state error since it was moved does not stay": {
			with(look(servers{server("a", "error"), server("b", "error")}, with(migration(7, "a", "migration", "error"), func(m *compute.Migration) { m.Changed = now.Add(-time.Hour) }),
				with(migration(8, "b", "resize", "error"), func(m *compute.Migration) { m.User = "owner" })), func(l *compute.Look) { l.Modes.Error = v1alpha1.ServerStay }),
			compute.Plan{
				Servers: []string{"a error", "b error"}, Stay: []string{"b error"}, Left: 1,
				Stuck: []string{"a is in the state error: openstack server set --state active a, once it is known to run, or delete it"},
			},
		},
		"with which Nova is busy it does not count as one that stays": {
			with(look(servers{{ID: "b", State: "stopped", Task: "powering-on"}}), func(l *compute.Look) { l.Modes.Stopped = v1alpha1.ServerStay }),
			compute.Plan{Servers: []string{"b stopped"}, Left: 1, Busy: []string{"b: powering-on"}},
		},
		"Nova 1: what was accepted and had nowhere to go shows in the migration alone": {
			look(servers{server("a", "active"), server("b", "active")},
				with(migration(7, "a", "live-migration", "error"), func(m *compute.Migration) { m.Destination = "" })),
			compute.Plan{
				Servers: []string{"a active", "b active"}, Left: 2, Work: 1,
				Failed: []string{"a stayed: Nova found no valid host for it (migration 7: error); asked for again at 12:04:00Z"},
				Next:   []compute.Call{live("b", 0)},
			},
		},
		"it is tried again after a while": {
			look(servers{server("a", "active")}, with(migration(7, "a", "live-migration", "error"), func(m *compute.Migration) { m.Changed = now.Add(-5 * time.Minute) })),
			compute.Plan{Servers: []string{"a active"}, Left: 1, Work: 1, Next: []compute.Call{live("a", 7)}},
		},
		"nor sooner where the clocks of Nova and of this process disagree": {
			with(look(servers{server("a", "active")}, with(migration(7, "a", "live-migration", "error"), func(m *compute.Migration) { m.Changed = now.Add(-time.Hour) })),
				func(l *compute.Look) {
					l.Asked = map[string]compute.Ask{"a": {Time: now.Add(-10 * time.Second), After: 6}}
				}),
			compute.Plan{Servers: []string{"a active"}, Left: 1, Failed: []string{"a stayed: migration 7 to other has the status error; asked for again at 12:04:50Z"}},
		},
		"a migration that was called off, or failed on its way": {
			look(servers{server("a", "active"), server("b", "active")}, migration(7, "a", "live-migration", "cancelled"), migration(8, "b", "live-migration", "failed")),
			compute.Plan{
				Servers: []string{"a active", "b active"}, Left: 2,
				Failed: []string{
					"a stayed: migration 7 was called off; asked for again at 12:04:00Z",
					"b stayed: migration 8 to other has the status failed; asked for again at 12:04:00Z",
				},
			},
		},
		"one that failed on its way here does not keep it here": {
			look(servers{server("a", "active")}, with(migration(7, "a", "live-migration", "error"), func(m *compute.Migration) { m.Source, m.Destination = "other", "h" })),
			compute.Plan{Servers: []string{"a active"}, Left: 1, Work: 1, Next: []compute.Call{live("a", 7)}},
		},
		"the last migration counts": {
			look(servers{server("a", "active")}, migration(8, "a", "live-migration", "running"), migration(7, "a", "live-migration", "error")),
			compute.Plan{Servers: []string{"a active"}, Left: 1, Work: 1, Moving: []string{"a live-migration to other: migration 8 is running"}},
		},
		"a request that was accepted or cut off is not sent twice on trust": {
			with(look(servers{server("a", "active")}, migration(7, "a", "live-migration", "error")), func(l *compute.Look) {
				l.Asked = map[string]compute.Ask{"a": {Time: now.Add(-59 * time.Second), After: 7}}
			}),
			compute.Plan{Servers: []string{"a active"}, Left: 1, Work: 1, Moving: []string{"a was asked for, and does not show yet"}},
		},
		"it counts as on its way while its migration does not show, and so does a server with a task of one": {
			with(look(servers{{ID: "a", State: "active", Task: "migrating"}, {ID: "b", State: "stopped", Task: "resize_prep"}, server("c", "active"), server("d", "active")}), func(l *compute.Look) {
				l.Asked = map[string]compute.Ask{"a": {Time: now}}
			}),
			compute.Plan{
				Servers: []string{"a active", "b stopped", "c active", "d active"}, Left: 4, Work: 3, Next: []compute.Call{live("c", 0)},
				Moving: []string{"a was asked for, and does not show yet", "b: resize_prep"},
			},
		},
		"it is sent again when it has certainly not arrived": {
			with(look(servers{server("a", "active")}), func(l *compute.Look) {
				l.Asked = map[string]compute.Ask{"a": {Time: now.Add(-time.Minute)}}
			}),
			compute.Plan{Servers: []string{"a active"}, Left: 1, Work: 1, Next: []compute.Call{live("a", 0)}},
		},
		"what it has led to counts, and not that it was sent": {
			with(look(servers{server("a", "active")}, migration(8, "a", "live-migration", "error")), func(l *compute.Look) {
				l.Asked = map[string]compute.Ask{"a": {Time: now, After: 7}}
			}),
			compute.Plan{Servers: []string{"a active"}, Left: 1, Failed: []string{"a stayed: migration 8 to other has the status error; asked for again at 12:04:00Z"}},
		},
		"what Nova has refused is not asked for at once again": {
			with(look(servers{server("a", "active")}), func(l *compute.Look) {
				l.Asked = map[string]compute.Ask{"a": {Time: now, Refused: "Quota exceeded (403)"}}
			}),
			compute.Plan{Servers: []string{"a active"}, Left: 1, Failed: []string{"a is not moved: Quota exceeded (403); asked for again at 12:05:00Z"}},
		},
		"Nova 3: a cold migration of Usher's is confirmed": {
			look(nil, migration(7, "a", "migration", "finished")),
			compute.Plan{
				Work: 1, Moving: []string{"server a is on other, which is to be confirmed"},
				Next: []compute.Call{{Do: compute.Confirm, Server: "a", Name: "server a", After: 7}},
			},
		},
		"a resize is its owner's to confirm, and so is another account's move": {
			look(nil, migration(7, "a", "resize", "finished"), with(migration(8, "b", "migration", "finished"), func(m *compute.Migration) { m.User = "other" })),
			compute.Plan{Unconfirmed: []string{
				"server a has left for other, and may come back: openstack server resize confirm a, or revert, ends that",
				"server b has left for other, and may come back: openstack server resize confirm b, or revert, ends that",
			}},
		},
		"what has ended is nothing any more": {
			look(nil, migration(7, "a", "live-migration", "completed"), migration(8, "b", "migration", "confirmed"), migration(9, "c", "migration", "reverted"),
				migration(10, "d", "evacuation", "done")),
			compute.Plan{Empty: true},
		},
		"servers on their way to it": {
			look(nil, with(migration(7, "a", "live-migration", "running"), func(m *compute.Migration) { m.Source, m.Destination = "other", "h" })),
			compute.Plan{Incoming: []string{"server a live-migration to h: migration 7 is running"}},
		},
		"a move that is reverted brings the server back": {
			look(nil, migration(7, "a", "migration", "reverting")),
			compute.Plan{Moving: []string{"server a migration to other: migration 7 is reverting"}},
		},
		"a server that the hypervisor alone has": {
			with(look(nil), func(l *compute.Look) { l.Hypervisors = two(compute.Server{ID: "a", Name: "web"}) }),
			compute.Plan{Servers: []string{"web (a) by the hypervisor's list alone"}, Left: 1},
		},
		"a name that could be read as words": {
			look(servers{{ID: "a", Name: "all is well", State: "active"}}),
			compute.Plan{Servers: []string{`"all is well" (a) active`}, Left: 1, Work: 1, Next: []compute.Call{{Do: compute.LiveMigrate, Server: "a", Name: `"all is well" (a)`}}},
		},
		"nova-compute is down: Nova moves nothing off it": {
			with(look(servers{server("a", "active")}), func(l *compute.Look) { l.Hypervisors[0].Up = false }),
			compute.Plan{Servers: []string{"a active"}, Left: 1, Work: 1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.want.Others = 1
			ignored := cmpopts.IgnoreFields(compute.Plan{}, "Hypervisor")
			if diff := cmp.Diff(test.want, test.look.Plan(), ignored); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Nothing is asked for where no other host takes servers: each try would fail.
func TestPlanWithoutAnotherHost(t *testing.T) {
	for name, change := range map[string]func(*compute.Hypervisor){
		"it is down":     func(h *compute.Hypervisor) { h.Up = false },
		"it is disabled": func(h *compute.Hypervisor) { h.Enabled = false },
	} {
		l := look([]compute.Server{server("a", "active")})
		change(&l.Hypervisors[1])
		if p := l.Plan(); p.Others != 0 || len(p.Next) != 0 || p.Left != 1 || p.Work != 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestHosts(t *testing.T) {
	for want, all := range map[string][]compute.Hypervisor{
		"OpenStack has no compute host h in this region":                             nil,
		"host h has several hypervisors, and Usher empties only hosts that have one": {{Host: "h"}, {Host: "h"}},
	} {
		l := compute.Look{Host: "h", Hypervisors: all, Listed: true}
		if diff := cmp.Diff(compute.Plan{Problem: want}, l.Plan()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestUndo(t *testing.T) {
	const stay = "; one is brought back by hand: openstack --os-compute-api-version 2.56 server migrate --host h SERVER, with --live-migration if it runs"
	call := func(do compute.Action, id int64) compute.Call {
		return compute.Call{Do: do, Server: "a", Name: "server a", Migration: id, After: id}
	}
	tests := map[string]struct {
		reason     string
		enabled    bool
		migrations []compute.Migration
		want       compute.Undo
	}{
		"what Usher has disabled is enabled": {reason: "Usher", want: compute.Undo{Service: "s-h"}},
		"what is enabled by now stays so":    {enabled: true},
		"without a reason nothing is said":   {},
		"what another client has disabled stays so": {reason: "disk is broken", want: compute.Undo{
			Left: "its service stays disabled, for another reason than this policy's (disk is broken): openstack compute service set --enable h nova-compute",
		}},
		"what waits is called off": {
			enabled: true, migrations: []compute.Migration{migration(6, "a", "live-migration", "queued"), migration(7, "a", "live-migration", "preparing")},
			want: compute.Undo{Next: []compute.Call{call(compute.Abort, 6), call(compute.Abort, 7)}},
		},
		"what runs, or was not scheduled yet, ends by itself": {
			enabled: true, migrations: []compute.Migration{migration(6, "a", "live-migration", "running"), migration(7, "a", "live-migration", "accepted")},
			want: compute.Undo{Runs: []string{"server a live-migration to other: migration 6 is running", "server a live-migration to other: migration 7 is accepted"}},
		},
		"a cold migration is not left unconfirmed": {
			enabled: true, migrations: []compute.Migration{migration(6, "a", "migration", "finished")}, want: compute.Undo{Next: []compute.Call{call(compute.Confirm, 6)}},
		},
		"what has moved stays, and is said": {
			enabled: true, migrations: []compute.Migration{migration(6, "a", "live-migration", "completed"), migration(7, "b", "migration", "confirmed"), migration(8, "c", "live-migration", "error")},
			want: compute.Undo{Left: "servers that have left h stay where they are: a (on other), b (on other)" + stay},
		},
		"another account's, an earlier one, and what leads to the host are left alone": {
			enabled: true, migrations: []compute.Migration{
				migration(5, "a", "live-migration", "queued"),
				with(migration(6, "a", "live-migration", "queued"), func(m *compute.Migration) { m.User = "other" }),
				with(migration(7, "a", "live-migration", "queued"), func(m *compute.Migration) { m.Source, m.Destination = "other", "h" }),
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := look(nil, test.migrations...)
			l.Hypervisors[0].Enabled, l.Hypervisors[0].Reason = test.enabled, test.reason
			got := l.Undo(5, func(reason string) bool { return reason == "Usher" })
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if done := test.want.Service == "" && test.want.Next == nil && test.want.Runs == nil; got.Done() != done {
				t.Errorf("done: %t", got.Done())
			}
		})
	}
	renamed := look(nil)
	renamed.Hypervisors[0].Enabled, renamed.Hypervisors[0].Reason = false, "Usher"
	renamed.Hypervisors = append(renamed.Hypervisors, renamed.Hypervisors[0])
	if got := renamed.Undo(5, func(string) bool { return true }); got.Service != "s-h" {
		t.Errorf("of a host that has several hypervisors by now: %+v", got)
	}
	l := compute.Look{Host: "gone"}
	if got := l.Undo(0, func(string) bool { return true }); !got.Done() || got.Left != "" {
		t.Errorf("of a host that is not there any more: %+v", got)
	}
}
