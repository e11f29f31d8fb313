package agency

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOldShapesOfNothing(t *testing.T) {
	for _, nothing := range []string{"[]", "{}", "null", " [ ] "} {
		data := `[{"arango":{"Plan":{"Collections":` + nothing + `,"DBServers":` + nothing + `,"AsyncReplication":` + nothing + `},
			"Current":{"Collections":` + nothing + `},"Supervision":{"Health":` + nothing + `,"Maintenance":null},
			"Target":{"CleanedServers":` + nothing + `,"FailedServers":` + nothing + `,"ToDo":` + nothing + `}}}]`
		state, err := Parse([]byte(data))
		if err != nil {
			t.Errorf("%s: %v", nothing, err)
			continue
		}
		if state.PlanKnown || state.CurrentKnown || state.Maintenance || len(state.Shards) > 0 || len(state.Jobs) > 0 {
			t.Errorf("%s: state is %+v", nothing, state)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, data := range map[string]string{
		"nothing":               ``,
		"no transaction":        `[]`,
		"two transactions":      `[{"arango":{}},{"arango":{}}]`,
		"no tree":               `[{}]`,
		"servers are no list":   `[{"arango":{"Plan":{"Collections":{"d":{"c":{"shards":{"s":{"a":1}}}}}}}}]`,
		"servers are no text":   `[{"arango":{"Plan":{"Collections":{"d":{"c":{"shards":{"s":[1]}}}}}}}]`,
		"shards are a list":     `[{"arango":{"Plan":{"Collections":{"d":{"c":{"shards":["s"]}}}}}}]`,
		"cleaned is an object":  `[{"arango":{"Target":{"CleanedServers":{"a":1}}}}]`,
		"replication is a word": `[{"arango":{"Plan":{"Collections":{"d":{"c":{"replicationFactor":"many"}}}}}}]`,
		"leader is a number":    `[{"arango":{"Plan":{"AsyncReplication":{"Leader":1}}}}]`,
	} {
		if _, err := Parse([]byte(data)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestUsage(t *testing.T) {
	good := map[string]Server{"A": {Status: Good}, "B": {Status: Good}, "C": {Status: "BAD"}}
	name := []string{"d/c/s"}
	alone := func(why string) []string { return []string{"d/c/s (" + why + ")"} }
	cases := []struct {
		name          string
		plan, current []string
		want          Usage // of A
	}{
		{"leads, followed", []string{"A", "B"}, []string{"A", "B"}, Usage{Planned: name, Current: name, Leads: name}},
		{"follows", []string{"B", "A"}, []string{"B", "A"}, Usage{Planned: name, Current: name}},
		{"asked to resign", []string{"_A", "B"}, []string{"A", "B"}, Usage{Planned: name, Current: name, Leads: name}},
		{"has resigned, no server leads", []string{"_A", "B"}, []string{"_A", "B"}, Usage{Planned: name, Current: name, Leads: name}},
		{"another has resigned", []string{"_B", "A"}, []string{"_B", "A"}, Usage{Planned: name, Current: name, Alone: alone("B is not in sync")}},
		{"asked another to resign", []string{"_B", "A"}, []string{"B", "A"}, Usage{Planned: name, Current: name}},
		{"lead not given up yet", []string{"B"}, []string{"A", "B"}, Usage{Current: name, Leads: name}},
		{"lead not taken yet", []string{"A", "B"}, []string{"B", "A"}, Usage{Planned: name, Current: name, Leads: name}},
		{"follower is bad", []string{"A", "C"}, []string{"A", "C"}, Usage{Planned: name, Current: name, Leads: name, Alone: alone("C is BAD")}},
		{"follower is unknown", []string{"A", "D"}, []string{"A", "D"}, Usage{Planned: name, Current: name, Leads: name, Alone: alone("D is of unknown health")}},
		{"one bad, one good", []string{"A", "C", "B"}, []string{"A", "C", "B"}, Usage{Planned: name, Current: name, Leads: name}},
		{"in sync and not planned", []string{"A"}, []string{"A", "B"}, Usage{Planned: name, Current: name, Leads: name, Alone: alone("no other server is planned for it")}},
		{"nothing", []string{"B"}, []string{"B"}, Usage{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			state := State{Servers: good, Shards: []Shard{{Database: "d", Collection: "c", ID: "s", Plan: c.plan, Current: c.current, Reported: true}}}
			if diff := cmp.Diff(c.want, state.Usage("A")); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJobThatCounts(t *testing.T) {
	job := func(id, kind, server string, state JobState) Job {
		return Job{ID: id, Type: kind, Server: server, State: state}
	}
	cases := []struct {
		name string
		jobs []Job
		want string
	}{
		{"none", nil, ""},
		{"of another server", []Job{job("1", CleanOutServer, "B", ToDo)}, ""},
		{"of another type", []Job{job("1", ResignLeadership, "A", ToDo)}, ""},
		{"the newest", []Job{job("9", CleanOutServer, "A", Failed), job("10", CleanOutServer, "A", Finished)}, "10"},
		{"one that runs before a newer one that does not", []Job{job("9", CleanOutServer, "A", Pending), job("10", CleanOutServer, "A", Failed)}, "9"},
		{"the newest of those that run", []Job{job("9", CleanOutServer, "A", Pending), job("10", CleanOutServer, "A", ToDo)}, "10"},
	}
	for _, c := range cases {
		state := State{Jobs: c.jobs}
		if got := state.Job(CleanOutServer, "A").ID; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if older(Job{ID: "9"}, Job{ID: "10"}) >= 0 || older(Job{ID: "10-2"}, Job{ID: "9"}) <= 0 {
		t.Error("ids are not ordered as numbers")
	}
}

func TestAgree(t *testing.T) {
	pool := map[string]string{"a": "tcp://a:1", "b": "tcp://b:1", "c": "tcp://c:1"}
	fresh := map[string]Ack{"a": {90, 0.2}, "b": {94, 0}, "c": {94, 0.9}}
	config := func(id, leader string, commit uint64, acked map[string]Ack) Config {
		return Config{ID: id, Leader: leader, Commit: commit, Acked: acked, Patience: 1, Size: 3, Pool: pool}
	}
	cases := []struct {
		name      string
		configs   []Config
		problem   string // part of it
		following []string
		holding   []string
	}{
		{"one is behind", []Config{config("a", "b", 90, nil), config("b", "b", 94, fresh), config("c", "b", 93, nil)}, "", []string{"a", "b", "c"}, []string{"b", "c"}},
		{"one is silent", []Config{config("b", "b", 94, fresh), config("c", "b", 94, nil)}, "", []string{"b", "c"}, []string{"b", "c"}},
		{"only the leader", []Config{config("b", "b", 94, fresh)}, "only 1 of 3", []string{"b"}, []string{"b"}},
		{"the leader is silent", []Config{config("a", "b", 94, nil), config("c", "b", 94, nil)}, "leader b does not answer", []string{"a", "c"}, nil},
		{"two leaders", []Config{config("b", "b", 94, fresh), config("c", "c", 95, fresh)}, "b says b; c says c", nil, nil},
		{"a new leader does not know yet what is on a majority", []Config{config("b", "b", 90, fresh), config("c", "b", 90, map[string]Ack{}), config("a", "b", 90, nil)}, "", []string{"a", "b", "c"}, []string{"b", "c"}},
		{"one knows none", []Config{config("a", "", 94, nil), config("b", "b", 94, fresh), config("c", "b", 94, nil)}, "", []string{"b", "c"}, []string{"b", "c"}},
		{"no agent knows one", []Config{config("a", "", 94, nil), config("b", "", 94, fresh)}, "no agent reports a leader", nil, nil},
		{"they have not acknowledged to the leader", []Config{config("a", "b", 94, nil), config("b", "b", 94, map[string]Ack{"a": {94, 1.5}}), config("c", "b", 94, nil)}, "only 1 of 3", []string{"b"}, []string{"b"}},
		{"a leader without entries", []Config{config("a", "b", 0, nil), config("b", "b", 0, map[string]Ack{"a": {}, "c": {}}), config("c", "b", 0, nil)}, "", []string{"a", "b", "c"}, nil},
		{"one answers at two addresses, differently", []Config{config("a", "b", 94, nil), config("b", "b", 94, fresh), config("a", "c", 94, nil)}, "different leaders", nil, nil},
		{"no agent", nil, "no agent reports", nil, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			view := Agree(c.configs)
			if (view.Problem == "") != (c.problem == "") || !strings.Contains(view.Problem, c.problem) {
				t.Errorf("problem is %q, want it to say %q", view.Problem, c.problem)
			}
			if diff := cmp.Diff(c.following, view.Following); diff != "" {
				t.Errorf("following (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.holding, view.Holding); diff != "" {
				t.Errorf("holding (-want +got):\n%s", diff)
			}
		})
	}
}

// One agent's opinion of the size does not hide another's: the largest counts.
func TestAgreeOnTheLargestSize(t *testing.T) {
	acked := map[string]Ack{"b": {1, 0}}
	view := Agree([]Config{{ID: "a", Leader: "a", Commit: 1, Size: 2, Patience: 1, Acked: acked}, {ID: "b", Leader: "a", Commit: 1, Size: 5}})
	if view.Size != 5 || view.Quorum != 3 || view.Problem == "" {
		t.Errorf("view is %+v", view)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`[{"arango":{"Plan":{"Collections":{"_system":{"1":{"name":"c","replicationFactor":2,"shards":{"s1":["_A","B"]}}}},"DBServers":{"A":"none","B":"none"}},
		"Current":{"Collections":{"_system":{"1":{"s1":{"servers":["_A","B"]}}}}},"Supervision":{"Health":{"B":{"Status":"GOOD"}}},
		"Target":{"CleanedServers":["A"],"Failed":{"7":{"type":"cleanOutServer","server":"A","timeFinished":"2026-01-01T00:00:00Z"}}}}}]`))
	f.Add([]byte(`[{"arango":{"Plan":{"Collections":[],"AsyncReplication":{"Leader":"S"},"Singles":{"S":"none"}},"Supervision":{"Maintenance":"x"}}}]`))
	f.Add([]byte(`[{"arango":{"Plan":{"Databases":{"d":{}},"Collections":{"d":{"1":{"writeConcern":2,"shards":{"s9":["A","B"],"s10":["_A",""]}},
		"2":{"distributeShardsLike":"1","minReplicationFactor":1,"replicationFactor":"satellite","shards":{"s11":["A","B"],"":["_"]}}}}},
		"Current":{"Collections":{"d":{"1":{"s9":{"servers":["A","B"],"failoverCandidates":[]},"s10":{"servers":["_A",""],"failoverCandidates":null}},"3":{"s":{"servers":["A"]}}}},
		"MaintenanceDBServers":{"B":{}}},"Supervision":{"DBServers":{"A":["7"]},"Health":{"A":{"Status":"GOOD"},"B":{"Status":"GOOD"}}}}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		state, err := Parse(data)
		if err != nil {
			return
		}
		for _, server := range append(state.DBServers, "", "A", "_A") {
			use := state.Usage(server)
			// What it leads is in one of the lists, and it is alone with nothing that it does not hold or lead.
			if len(use.Leads) > len(use.Planned)+len(use.Current) || len(use.Alone) > len(state.Shards) {
				t.Errorf("%q: usage is %+v", server, use)
			}
			if needed := state.NeededForWrites(server); len(needed) > len(use.Planned) {
				t.Errorf("%q: writes need it for %v, and planned are %v", server, needed, use.Planned)
			}
			if left, needed := state.Room(server); left > len(state.DBServers) || needed < 1 {
				t.Errorf("%q: room for %d, needed %d", server, left, needed)
			}
			state.Job(CleanOutServer, server)
		}
	})
}

func FuzzAgree(f *testing.F) {
	f.Add([]byte(`{"leaderId":"a","commitIndex":9,"lastAcked":{"a":{"lastAckedTime":0,"lastAckedIndex":9},"b":{"lastAckedTime":0.5,"lastAckedIndex":9}},"configuration":{"id":"a","pool":{"a":"tcp://a:1","b":"tcp://b:1"},"agency size":2}}`),
		[]byte(`{"leaderId":"a","commitIndex":9,"configuration":{"id":"b","pool":[],"agency size":2}}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var configs []Config
		for _, data := range [][]byte{first, second} {
			if config, err := ParseConfig(data); err == nil {
				configs = append(configs, config)
			}
		}
		view := Agree(configs)
		if view.Problem != "" {
			return
		}
		if len(view.Following) < view.Quorum || 2*view.Quorum <= view.Size || len(view.Holding) > len(view.Following) || view.Leader == "" {
			t.Errorf("nothing is wrong with %+v", view)
		}
	})
}
