package agency

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// alike is an answer with two collections of two shards each, the second distributed like the first: s9 belongs to s11, and
// s10 to s12. PRMR-a leads everything, PRMR-b and PRMR-c are planned for everything; current has what is reported.
func alike(current, more string) string {
	const planned = `["A","B","C"]`
	return fmt.Sprintf(`[{"arango":{
		"Plan":{"Databases":{"d":{}},"DBServers":{"A":"none","B":"none","C":"none"},"Collections":{"d":{
			"1":{"name":"one","replicationFactor":3,"shards":{"s9":%[1]s,"s10":%[1]s}},
			"2":{"name":"two","replicationFactor":3,"distributeShardsLike":"1","shards":{"s12":%[1]s,"s11":%[1]s}}}}},
		"Current":{"Collections":{"d":{%[2]s}}%[3]s},
		"Supervision":{"Health":{"A":{"Status":"GOOD"},"B":{"Status":"GOOD"},"C":{"Status":"GOOD"}}}}}]`, planned, current, more)
}

func TestWhoCouldTakeOver(t *testing.T) {
	inSync := func(s9, s10, s11, s12 string) string {
		return fmt.Sprintf(`"1":{"s9":{"servers":[%s]},"s10":{"servers":[%s]}},"2":{"s11":{"servers":[%s]},"s12":{"servers":[%s]}}`, s9, s10, s11, s12)
	}
	const all = `"A","B","C"`
	cases := []struct {
		name, data string
		want       []string // what A could not be replaced for
	}{
		{"all in sync", alike(inSync(all, all, all, all), ""), nil},
		{"one follower has the one shard, and one the other that is distributed alike", alike(inSync(`"A","B"`, all, `"A","C"`, all), ""), []string{
			"d/one/s9 (C is not in sync)", "d/two/s11 (C could not lead d/one/s9, which is distributed alike)",
		}},
		{"one follower has both", alike(inSync(`"A","B"`, all, `"A","C","B"`, all), ""), nil},
		{"each follower has one place", alike(inSync(`"A","B"`, `"A","C"`, `"A","B"`, `"A","C"`), ""), nil},
		{"what is distributed alike is not reported yet", alike(`"1":{"s9":{"servers":["A","B"]},"s10":{"servers":["A","C"]}}`, ""), []string{
			"d/two/s11 (its state is not reported yet)", "d/two/s12 (its state is not reported yet)",
		}},
		{"followers in sync may not take over yet", alike(`"1":{"s9":{"servers":["A","B","C"],"failoverCandidates":["A"]}}`, ""), []string{
			"d/one/s10 (its state is not reported yet)", "d/one/s9 (C is in sync and may not take over yet)",
			"d/two/s11 (its state is not reported yet)", "d/two/s12 (its state is not reported yet)",
		}},
		{"candidates that are not in sync any more", alike(`"1":{"s9":{"servers":["A","B","C"]},"s10":{"servers":["A"],"failoverCandidates":["A","B","C"]}},"2":{"s11":{"servers":["A","B","C"]},"s12":{"servers":["A","B","C"]}}`, ""), []string{
			"d/one/s10 (C is not in sync)", "d/two/s12 (C could not lead d/one/s10, which is distributed alike)",
		}},
		{"both followers are in maintenance", alike(inSync(all, all, all, all), `,"MaintenanceDBServers":{"B":{"Mode":"maintenance"},"C":{"Mode":"maintenance"}}`), []string{
			"d/one/s10 (C is in maintenance)", "d/one/s9 (C is in maintenance)", "d/two/s11 (C is in maintenance)", "d/two/s12 (C is in maintenance)",
		}},
		{"one follower is in maintenance", alike(inSync(all, all, all, all), `,"MaintenanceDBServers":{"B":{"Mode":"maintenance"}}`), nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			state, err := Parse([]byte(c.data))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, state.Usage("A").Alone); diff != "" {
				t.Errorf("alone (-want +got):\n%s", diff)
			}
		})
	}
}

// A job holds a server while it moves its shards; no shard fails over to it meanwhile.
func TestWhoIsHeld(t *testing.T) {
	shard := Shard{Database: "d", Collection: "c", ID: "s", Plan: []string{"A", "B"}, Current: []string{"A", "B"}, Reported: true}
	state := State{Servers: map[string]Server{"A": {Status: Good}, "B": {Status: Good}}, Shards: []Shard{shard}, Held: []string{"B"}}
	if diff := cmp.Diff([]string{"d/c/s (B is held by a job of the supervision)"}, state.Usage("A").Alone); diff != "" {
		t.Errorf("alone (-want +got):\n%s", diff)
	}
	parsed, err := Parse([]byte(`[{"arango":{"Supervision":{"DBServers":{"B":"955430","C":["955431"]}}}}]`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"B", "C"}, parsed.Held); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
}

func TestNeededForWrites(t *testing.T) {
	good := map[string]Server{"A": {Status: Good}, "B": {Status: Good}, "C": {Status: Good}, "D": {Status: "BAD"}}
	cases := []struct {
		name          string
		concern       int
		plan, current []string
		want          []string // those that may not be away
	}{
		{"all of two", 1, []string{"A", "B"}, []string{"A", "B"}, nil},
		{"the only one in sync", 1, []string{"A", "B"}, []string{"A"}, []string{"A"}},
		{"a write must reach both, and none could ever be away", 2, []string{"A", "B"}, []string{"A", "B"}, nil},
		{"a write must reach two of three", 2, []string{"A", "B", "C"}, []string{"B", "C"}, []string{"B", "C"}},
		{"a write must reach two of three, all are there", 2, []string{"A", "B", "C"}, []string{"C", "B", "A"}, nil},
		{"one copy", 1, []string{"A"}, []string{"A"}, nil},
		{"one copy that is not there", 1, []string{"A"}, nil, []string{"A"}},
		{"no copy is there", 1, []string{"A", "B"}, nil, []string{"A", "B"}},
		{"one that is not planned does not count", 1, []string{"A", "B"}, []string{"A", "C"}, []string{"A"}},
		{"one that has resigned does not count", 1, []string{"_A", "B"}, []string{"_A", "B"}, []string{"B"}},
		{"the other is bad", 1, []string{"A", "D"}, []string{"A", "D"}, []string{"A"}},
		{"asked to resign", 1, []string{"_A", "B"}, []string{"A", "B"}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			state := State{Servers: good, Shards: []Shard{{Database: "d", Collection: "c", ID: "s", Plan: c.plan, Current: c.current, Reported: true, WriteConcern: c.concern, Copies: len(c.plan)}}}
			var needed []string
			for _, server := range []string{"A", "B", "C", "D"} {
				if len(state.NeededForWrites(server)) > 0 {
					needed = append(needed, server)
				}
			}
			if diff := cmp.Diff(c.want, needed); diff != "" {
				t.Errorf("needed (-want +got):\n%s", diff)
			}
		})
	}
}

// Where more copies are asked for than are planned yet, writes wait for what the collection asks.
func TestWriteConcernOfAnswers(t *testing.T) {
	parse := func(properties, databases string) *State {
		t.Helper()
		state, err := Parse([]byte(`[{"arango":{"Plan":{` + databases + `"Collections":{"d":{"1":{` + properties + `"shards":{"s1":["A","B","C"]}}}}},
			"Supervision":{"Health":{"B":{"Status":"GOOD"}}},
			"Current":{"Collections":{"d":{"1":{"s1":{"servers":["A","B"]}}}}}}}]`))
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	cases := []struct {
		name, properties, databases string
		needed                      bool // A
	}{
		{"write concern", `"replicationFactor":3,"writeConcern":2,`, "", true},
		{"its old name", `"replicationFactor":3,"minReplicationFactor":2,`, "", true},
		{"the new name wins", `"replicationFactor":3,"writeConcern":1,"minReplicationFactor":2,`, "", false},
		{"none", `"replicationFactor":3,`, "", false},
		{"a satellite", `"replicationFactor":"satellite","writeConcern":1,`, "", false},
		{"as high as the replication factor", `"replicationFactor":3,"writeConcern":3,`, "", true},
		{"the database is planned", `"writeConcern":2,`, `"Databases":{"d":{}},`, true},
		{"the database is planned no more", `"writeConcern":2,`, `"Databases":{"other":{}},`, false},
		{"no database is named", `"writeConcern":2,`, `"Databases":{},`, true},
	}
	for _, c := range cases {
		state := parse(c.properties, c.databases)
		if needed := len(state.NeededForWrites("A")) > 0; needed != c.needed {
			t.Errorf("%s: needed is %t, want %t", c.name, needed, c.needed)
		}
	}
}
