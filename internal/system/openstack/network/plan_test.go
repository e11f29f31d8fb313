package network_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/system/openstack/network"
)

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

const (
	emptying = "Usher (policy n): what it has is moved to other agents"
	emptied  = "Usher (policy n): it has nothing, and gets nothing"
)

// agents are that of host h, which is being emptied, and two others.
func agents(kind network.Kind) []network.Agent {
	return []network.Agent{
		{ID: "a-h", Type: kind.Agent, Host: "h", Alive: true, Up: true, Description: emptying},
		{ID: "a-1", Type: kind.Agent, Host: "one", Alive: true, Up: true, Zone: "z1"},
		{ID: "a-2", Type: kind.Agent, Host: "two", Alive: true, Up: true, Zone: "z2"},
	}
}

// look is one at things of host h, of which holders are known: the host's agent and those named.
func look(kind network.Kind, things ...network.Thing) network.Look {
	l := network.Look{
		Now: now, Host: "h", Kind: kind, Owner: "n", Agents: agents(kind), Things: things, Listed: true, AtOnce: 10,
		Load: map[string]int{"a-1": 1}, Holders: map[string][]network.Holder{}, Asked: map[network.Pair]network.Ask{},
	}
	for _, t := range things {
		l.Holders[t.ID] = []network.Holder{{Agent: "a-h"}}
	}
	return l
}

// with changes a value.
func with[T any](value T, change func(*T)) T {
	change(&value)
	return value
}

func hold(id string, holders ...network.Holder) func(*network.Look) {
	return func(l *network.Look) { l.Holders[id] = holders }
}

func moving(moved int, ids ...string) network.Job { return network.Job{Moved: moved, Moving: ids} }

func TestNext(t *testing.T) {
	plain, ha, lan, far := network.Thing{ID: "r"}, network.Thing{ID: "r", HA: true}, network.Thing{ID: "n"}, network.Thing{ID: "r", Zones: []string{"z1"}}
	active, standby := network.Holder{Agent: "a-h", State: network.Active}, network.Holder{Agent: "a-1", State: network.Standby}
	router := func(from string, to ...string) network.Call {
		return network.Call{Thing: "r", Name: "router r", From: from, To: to}
	}
	first := func(name, id string, to ...string) network.Call {
		return network.Call{Thing: id, Name: name + " " + id, To: to, AddFirst: true}
	}
	tests := map[string]struct {
		look network.Look
		next []network.Call
		job  network.Job
	}{
		"a plain router is written down before it is touched": {look: look(network.Routers, plain), job: moving(0, "r")},
		"then it is moved to the agent with the fewest, and stays where all refuse it": {
			look: with(look(network.Routers, plain), func(l *network.Look) { l.Job = moving(3, "r") }),
			next: []network.Call{router("a-h", "a-2", "a-1", "a-h")}, job: moving(3, "r"),
		},
		"an agent that is not alive is no place to stay": {
			look: with(look(network.Routers, plain), func(l *network.Look) { l.Job, l.Agents[0].Alive = moving(0, "r"), false }),
			next: []network.Call{router("a-h", "a-2", "a-1")}, job: moving(0, "r"),
		},
		"zones are respected": {
			look: with(look(network.Routers, far), func(l *network.Look) { l.Job = moving(0, "r") }), next: []network.Call{router("a-h", "a-1", "a-h")}, job: moving(0, "r"),
		},
		"a job has room for six": {
			look: look(network.Routers, network.Thing{ID: "1"}, network.Thing{ID: "2"}, network.Thing{ID: "3"}, network.Thing{ID: "4"}, network.Thing{ID: "5"},
				network.Thing{ID: "6"}, network.Thing{ID: "7"}),
			job: moving(0, "1", "2", "3", "4", "5", "6"),
		},
		"a router with HA that is on two hosts which are emptied is given to an agent for each": {
			look: with(look(network.Routers, ha), func(l *network.Look) {
				l.Holders["r"] = []network.Holder{active, standby}
				l.Asked[network.Pair{Thing: "r", Agent: "a-1"}] = network.Ask{Time: now, Host: "x"}
			}),
			next: []network.Call{first("router", "r", "a-2")},
		},
		"and leaves once the one for the host has it": {
			look: with(look(network.Routers, ha), func(l *network.Look) {
				l.Holders["r"] = []network.Holder{{Agent: "a-h", State: network.Standby}, {Agent: "a-1", State: network.Active}}
				l.Asked[network.Pair{Thing: "r", Agent: "a-1"}] = network.Ask{Time: now, Host: "h"}
			}),
			next: []network.Call{router("a-h")},
		},
		"one that has left and is served counts as moved": {
			look: with(look(network.Routers, network.Thing{ID: "other"}), func(l *network.Look) { l.Job = moving(1, "r"); l.Holders["r"] = []network.Holder{{Agent: "a-1"}} }),
			job:  moving(2, "other"),
		},
		"one that has left and has no agent gets one": {
			look: with(look(network.Routers), func(l *network.Look) { l.Job = moving(1, "r"); l.Holders["r"] = []network.Holder{} }),
			next: []network.Call{router("", "a-2", "a-1", "a-h")}, job: moving(1, "r"),
		},
		"one whose new agent has died gets another": {
			look: with(look(network.Routers), func(l *network.Look) {
				l.Job, l.Agents[1].Alive = moving(0, "r"), false
				l.Holders["r"] = []network.Holder{{Agent: "a-1"}}
			}),
			next: []network.Call{router("a-1", "a-2", "a-h")}, job: moving(0, "r"),
		},
		"one that does not exist any more is forgotten": {
			look: with(look(network.Routers, network.Thing{ID: "other"}), func(l *network.Look) { l.Job = moving(1, "r") }), job: moving(1, "other"),
		},
		"an answer that was cut off is waited for": {
			look: with(look(network.Routers), func(l *network.Look) {
				l.Job = moving(0, "r")
				l.Holders["r"] = []network.Holder{{Agent: "a-1"}}
				l.Asked[network.Pair{Thing: "r", Agent: "a-1"}] = network.Ask{Time: now, Open: true}
			}),
			job: moving(0, "r"),
		},
		"an agent that has not answered gets nothing": {
			look: with(look(network.Routers, plain), func(l *network.Look) {
				l.Job = moving(0, "r")
				l.Asked[network.Pair{Thing: "x", Agent: "a-2"}] = network.Ask{Time: now.Add(-time.Minute), Open: true}
			}),
			next: []network.Call{router("a-h", "a-1", "a-h")}, job: moving(0, "r"),
		},
		"a router with HA is given to another first": {
			look: with(look(network.Routers, ha), hold("r", active, standby)), next: []network.Call{first("router", "r", "a-2")},
		},
		"then the one that is active is written down": {
			look: with(with(look(network.Routers, ha), hold("r", active, standby, network.Holder{Agent: "a-2", State: network.Standby})), func(l *network.Look) {}),
			job:  moving(0, "r"),
		},
		"and fails over": {
			look: with(with(look(network.Routers, ha), hold("r", active, standby, network.Holder{Agent: "a-2", State: network.Standby})), func(l *network.Look) {
				l.Job = moving(0, "r")
			}),
			next: []network.Call{router("a-h")}, job: moving(0, "r"),
		},
		"not before it is served by another": {
			look: with(with(look(network.Routers, ha), hold("r", active)), func(l *network.Look) { l.Agents = l.Agents[:1]; l.Job = moving(0, "r") }),
		},
		"and the next one not before it is active elsewhere": {
			look: with(with(look(network.Routers, ha), hold("r", active, standby, network.Holder{Agent: "a-2", State: network.Standby})), func(l *network.Look) {
				l.Job = moving(0, "before")
				l.Holders["before"] = []network.Holder{standby}
			}),
			job: moving(0, "before"),
		},
		"a standby is taken off at once": {
			look: with(look(network.Routers, ha), hold("r", network.Holder{Agent: "a-h", State: network.Standby}, network.Holder{Agent: "a-1", State: network.Active},
				network.Holder{Agent: "a-2", State: network.Standby})),
			next: []network.Call{router("a-h")},
		},
		"but not while none is active": {
			look: with(look(network.Routers, ha), hold("r", network.Holder{Agent: "a-h", State: network.Standby}, network.Holder{Agent: "a-1", State: network.Standby},
				network.Holder{Agent: "a-2", State: network.Standby})),
			job: moving(0, "r"),
		},
		"a network is given to another first": {look: look(network.Networks, lan), next: []network.Call{first("network", "n", "a-2", "a-1")}},
		"then it is taken off": {
			look: with(with(look(network.Networks, lan), hold("n", network.Holder{Agent: "a-2"})), func(l *network.Look) {
				l.Asked[network.Pair{Thing: "n", Agent: "a-2"}] = network.Ask{Time: now, Host: "h"}
			}),
			next: []network.Call{{Thing: "n", Name: "network n", From: "a-h"}},
		},
		"and at once where all others have it": {
			look: with(look(network.Networks, lan), hold("n", network.Holder{Agent: "a-1"}, network.Holder{Agent: "a-2"})),
			next: []network.Call{{Thing: "n", Name: "network n", From: "a-h"}},
		},
		"not where those that have it do not live": {
			look: with(with(look(network.Networks, lan), hold("n", network.Holder{Agent: "a-1"})), func(l *network.Look) { l.Agents[1].Alive, l.Agents[2].Alive = false, false }),
		},
		"an agent that is being emptied, whoever does that, gets nothing": {
			look: with(look(network.Speakers, lan), func(l *network.Look) {
				l.Agents[2].Description = "Usher (policy other): what it has is moved to other agents"
			}),
			next: []network.Call{first("speaker", "n", "a-1")},
		},
		"nothing is asked for while Neutron was not asked for all": {look: with(look(network.Networks, lan), func(l *network.Look) { l.Listed = false })},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := test.look.Plan()
			if diff := cmp.Diff(test.next, p.Next); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.job, p.Job); diff != "" {
				t.Error(diff)
			}
			if p.Empty {
				t.Error("it counts as empty")
			}
		})
	}
}

// An agent is marked first, disabled last, and empty only when both is seen with nothing on it or behind it.
func TestSettings(t *testing.T) {
	down := false
	tests := map[string]struct {
		look  network.Look
		want  *network.Setting
		empty bool
	}{
		"it is marked": {
			look: with(look(network.Networks, network.Thing{ID: "n"}), func(l *network.Look) { l.Agents[0].Description = "rack 7" }),
			want: &network.Setting{Agent: "a-h", Description: emptying + "; rack 7"},
		},
		"one that was disabled is marked as such": {
			look: with(look(network.Networks), func(l *network.Look) { l.Agents[0].Description, l.Agents[0].Up = "", false }),
			want: &network.Setting{Agent: "a-h", Description: emptying + ", and was disabled before"},
		},
		"not the last one that has something": {
			look: with(look(network.Networks, network.Thing{ID: "n"}), func(l *network.Look) { l.Agents = l.Agents[:1]; l.Agents[0].Description = "" }),
		},
		"it is not disabled while it has something": {look: look(network.Networks, network.Thing{ID: "n"})},
		"it is disabled when it has nothing":        {look: look(network.Networks), want: &network.Setting{Agent: "a-h", Description: emptied, Up: &down}},
		"it is empty then":                          {look: with(look(network.Networks), func(l *network.Look) { l.Agents[0].Description, l.Agents[0].Up = emptied, false }), empty: true},
		"not when it was enabled again": {
			look: with(look(network.Networks), func(l *network.Look) { l.Agents[0].Description = emptied }), want: &network.Setting{Agent: "a-h", Description: emptied, Up: &down},
		},
		"what comes to it meanwhile takes the word back, and leaves it disabled": {
			look: with(look(network.Networks, network.Thing{ID: "n"}), func(l *network.Look) { l.Agents[0].Description, l.Agents[0].Up = emptied, false }),
			want: &network.Setting{Agent: "a-h", Description: emptying},
		},
		"a router that has left and has no agent keeps it from being disabled": {
			look: with(look(network.Routers), func(l *network.Look) { l.Job = moving(0, "r"); l.Holders["r"] = []network.Holder{} }),
		},
		"an answer that was cut off keeps it from being disabled": {
			look: with(look(network.Routers), func(l *network.Look) {
				l.Job = moving(0, "r")
				l.Holders["r"] = []network.Holder{{Agent: "a-1"}}
				l.Asked[network.Pair{Thing: "r", Agent: "a-1"}] = network.Ask{Time: now, Open: true}
			}),
		},
		"disabled before and without anything it is not empty until that is written": {
			look: with(look(network.Routers), func(l *network.Look) {
				l.Agents[0].Description, l.Agents[0].Up = emptying+", and was disabled before", false
			}),
			want: &network.Setting{Agent: "a-h", Description: emptied + ", and was disabled before", Up: &down},
		},
		"disabled by another is not empty": {look: with(look(network.Networks), func(l *network.Look) {
			l.Agents[0].Description, l.Agents[0].Up = "Usher (policy other): it has nothing, and gets nothing", false
		})},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := test.look.Plan()
			if diff := cmp.Diff(test.want, p.Set); diff != "" {
				t.Error(diff)
			}
			if p.Empty != test.empty {
				t.Errorf("empty: %t", p.Empty)
			}
		})
	}
}

// What has moved is counted once, however often it is looked at before the job is written anew.
func TestMovedIsCountedOnce(t *testing.T) {
	l := look(network.Routers)
	l.Job, l.Holders["r"] = moving(1, "r"), []network.Holder{{Agent: "a-1"}}
	p := l.Plan()
	if diff := cmp.Diff(l.Job, p.Job); p.Set == nil || diff != "" {
		t.Error(diff)
	}
	if got := l.Undo().Job; got.Moved != 2 {
		t.Errorf("%+v", got)
	}
}

func TestNamedBlockers(t *testing.T) {
	r, far := network.Thing{ID: "r"}, network.Thing{ID: "r", Zones: []string{"moon"}}
	tests := map[string]struct {
		look                   network.Look
		problem, stuck, failed string
	}{
		"no agent":   {look: with(look(network.Routers), func(l *network.Look) { l.Host = "x" }), problem: "Neutron has no L3 agent on a host x in this region"},
		"two agents": {look: with(look(network.Routers), func(l *network.Look) { l.Agents[1].Host = "h" }), problem: "host h has several agents of the type L3 agent: openstack network agent delete ID removes the one that is not there any more"},
		"another policy's": {
			look: with(look(network.Routers, r), func(l *network.Look) {
				l.Agents[0].Description = strings.Replace(emptying, "policy n", "policy o", 1)
			}),
			problem: "the L3 agent on h is being emptied for policy o already; where that one is gone, openstack network agent set --description WORDS a-h takes its mark off",
		},
		"no room for the mark": {
			look:    with(look(network.Routers, r), func(l *network.Look) { l.Agents[0].Description = strings.Repeat("x", 203) }),
			problem: "the description of the L3 agent on h is too long by 4 characters for Usher to write before it that it is being emptied: shorten it: openstack network agent set --description WORDS a-h",
		},
		"no other agent":        {look: with(look(network.Routers, r), func(l *network.Look) { l.Agents = l.Agents[:1] }), stuck: "r has nowhere to go: no other L3 agent is alive, enabled and not being emptied"},
		"no agent in its zones": {look: look(network.Routers, far), stuck: "r has nowhere to go: no other L3 agent in its zones (moon) is alive, enabled and not being emptied"},
		"no agent with its mode": {
			look:  with(look(network.Routers, r), func(l *network.Look) { l.Agents[1].Mode, l.Agents[2].Mode = "dvr", "dvr_no_external" }),
			stuck: "r has nowhere to go: no other L3 agent that is alive, enabled and not being emptied has a mode that suits it",
		},
		"distributed": {look: with(look(network.Routers, r), func(l *network.Look) { l.Agents[0].Mode = "dvr" }), stuck: "r is distributed, and leaves with the servers of the host: have those moved"},
		"refused": {
			look: with(look(network.Routers, r), func(l *network.Look) {
				l.Asked[network.Pair{Thing: "r", Agent: "a-1"}] = network.Ask{Time: now, Refused: "no (409)"}
				l.Asked[network.Pair{Thing: "r", Agent: "a-2"}] = network.Ask{Time: now, Refused: "no (409)"}
			}),
			failed: "r is not moved: no (409); asked for again at 12:05:00Z",
		},
		"not let go": {
			look: with(look(network.Routers, r), func(l *network.Look) {
				l.Asked[network.Pair{Thing: "r", Agent: "a-h"}] = network.Ask{Time: now, Refused: "no (409)"}
			}),
			failed: "r is not let go: no (409); asked for again at 12:05:00Z",
		},
		"refused long ago": {
			look: with(look(network.Routers, r), func(l *network.Look) {
				l.Asked[network.Pair{Thing: "r", Agent: "a-h"}] = network.Ask{Time: now.Add(-network.Again), Refused: "no (409)"}
			}),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := test.look.Plan()
			got := []string{p.Problem, strings.Join(p.Stuck, "|"), strings.Join(p.Failed, "|")}
			if diff := cmp.Diff([]string{test.problem, test.stuck, test.failed}, got); diff != "" {
				t.Error(diff)
			}
			if test.problem+test.stuck+test.failed != "" && len(p.Next) > 0 {
				t.Errorf("%+v", p.Next)
			}
		})
	}
}

func TestUndo(t *testing.T) {
	up := true
	const stay = "what has left h stays where it is (2 routers at least); one is brought back by hand: openstack network agent remove router --l3 OTHER-AGENT ID, and add router --l3 AGENT ID"
	tests := map[string]struct {
		look network.Look
		want network.Undo
	}{
		"it is enabled and has its description": {
			look: with(look(network.Routers), func(l *network.Look) { l.Agents[0].Description, l.Agents[0].Up = emptied+"; rack 7", false }),
			want: network.Undo{Set: &network.Setting{Agent: "a-h", Description: "rack 7", Up: &up}},
		},
		"so is one of several that the host has by now": {
			look: with(look(network.Routers), func(l *network.Look) {
				l.Agents[0].Description = ""
				l.Agents[1].Host, l.Agents[1].Description, l.Agents[1].Up = "h", emptied, false
			}),
			want: network.Undo{Set: &network.Setting{Agent: "a-1", Up: &up}},
		},
		"one that was disabled stays so": {
			look: with(look(network.Routers), func(l *network.Look) {
				l.Agents[0].Description, l.Agents[0].Up = emptied+", and was disabled before", false
			}),
			want: network.Undo{Set: &network.Setting{Agent: "a-h"}},
		},
		"and that is said": {
			look: with(look(network.Routers), func(l *network.Look) { l.Agents[0].Description, l.Agents[0].Up = "", false }),
			want: network.Undo{Left: "its agent stays disabled, as it was before: openstack network agent set --enable a-h"},
		},
		"another policy's mark is none": {
			look: with(look(network.Routers), func(l *network.Look) {
				l.Agents[0].Description, l.Agents[0].Up = strings.Replace(emptied, "policy n", "policy o", 1), false
			}),
		},
		"what has moved stays, and is said": {
			look: with(look(network.Routers), func(l *network.Look) {
				l.Agents[0].Description, l.Job = "", moving(1, "r")
				l.Holders["r"] = []network.Holder{{Agent: "a-1"}}
			}),
			want: network.Undo{Job: moving(2), Left: stay},
		},
		"what has no agent gets one": {
			look: with(look(network.Routers), func(l *network.Look) {
				l.Agents[0].Description, l.Job = "", moving(0, "r")
				l.Holders["r"] = []network.Holder{}
			}),
			want: network.Undo{
				Next: []network.Call{{Thing: "r", Name: "router r", To: []string{"a-2", "a-1", "a-h"}}}, Waits: []string{"router r has no living agent"}, Job: moving(0, "r"),
			},
		},
		"also where the host has no agent any more": {
			look: with(look(network.Routers), func(l *network.Look) {
				l.Agents, l.Job = l.Agents[1:], moving(0, "r")
				l.Holders["r"] = []network.Holder{}
			}),
			want: network.Undo{Next: []network.Call{{Thing: "r", Name: "router r", To: []string{"a-2", "a-1"}}}, Waits: []string{"router r has no living agent"}, Job: moving(0, "r")},
		},
		"what another was given in addition is taken from it": {
			look: with(look(network.Networks, network.Thing{ID: "n"}), func(l *network.Look) {
				l.Agents[0].Description = ""
				l.Holders["n"] = []network.Holder{{Agent: "a-1"}, {Agent: "a-2"}}
				l.Asked[network.Pair{Thing: "n", Agent: "a-2"}] = network.Ask{Time: now, Host: "h"}
			}),
			want: network.Undo{Next: []network.Call{{Thing: "n", Name: "network n", From: "a-2"}}},
		},
		"what it was given for another host stays": {
			look: with(look(network.Routers, network.Thing{ID: "r", HA: true}), func(l *network.Look) {
				l.Agents[0].Description = ""
				l.Holders["r"] = []network.Holder{{Agent: "a-h", State: network.Standby}, {Agent: "a-2", State: network.Active}}
				l.Asked[network.Pair{Thing: "r", Agent: "a-2"}] = network.Ask{Time: now, Host: "x"}
			}),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.look.Undo()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestJobs(t *testing.T) {
	six := moving(123456)
	for range 6 {
		six.Moving = append(six.Moving, "00000000-0000-4000-8000-000000000000")
	}
	for _, job := range []network.Job{{}, moving(7), moving(0, "r"), six} {
		words := job.String()
		if got, ok := network.ParseJob(words); !ok || got.String() != words || len(words) > 253 || len(got.Moving) != len(job.Moving) {
			t.Errorf("%s: %+v", words, got)
		}
	}
	for _, words := range []string{"", "migrations after 7", "moved x", "moved"} {
		if _, ok := network.ParseJob(words); ok {
			t.Errorf("%q is a job", words)
		}
	}
}
