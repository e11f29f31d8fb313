package status_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"usher.sh/usher/internal/system/foundationdb/status"
)

// whole is a document in which nothing is missing: two copies of everything, three coordinators.
const whole = `{
	"client": {"coordinators": {"coordinators": [
		{"address": "10.0.0.1:4500", "reachable": true}, {"address": "10.0.0.2:4500", "reachable": true}, {"address": "10.0.0.3:4500", "reachable": true}],
		"quorum_reachable": true}, "database_status": {"available": true, "healthy": true}, "messages": []},
	"cluster": {
		"configuration": {"redundancy_mode": "double", "usable_regions": 1, "excluded_servers": [{"address": "10.0.0.1"}]},
		"data": {"state": {"name": "healthy", "min_replicas_remaining": 2}, "team_trackers": [{"primary": true, "state": {"name": "healthy", "min_replicas_remaining": 2}}]},
		"fault_tolerance": {"max_zone_failures_without_losing_data": 1}, "messages": [],
		"logs": [{"log_replication_factor": 2, "log_fault_tolerance": 1}],
		"recovery_state": {"name": "fully_recovered", "active_generations": 1, "seconds_since_last_recovered": 100.5},
		"processes": {
			"a": {"address": "10.0.0.1:4500:tls", "class_type": "storage", "excluded": true, "locality": {"instance_id": "p1", "zoneid": "z1", "processid": "a"}, "roles": [{"role": "coordinator"}]},
			"b": {"address": "10.0.0.2:4500", "class_type": "storage", "excluded": false, "locality": {"instance_id": "p2", "zoneid": "z2", "processid": "b"}, "roles": [{"role": "storage", "stored_bytes": 1}]},
			"c": {"address": "[fd00::3]:4500", "class_type": "log", "locality": {"instance_id": "p3", "zoneid": "z3"}, "roles": [{"role": "log"}, {"role": "log"}]},
			"d": {"address": "10.0.0.4:4500", "class_type": "storage", "roles": []}
		}
	}
}`

// with changes a field of the document, which a path with dots names; nil: the field is removed.
func with(t *testing.T, path string, value any) *status.Status {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(whole), &doc); err != nil {
		t.Fatal(err)
	}
	at := doc
	keys := strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		at = at[key].(map[string]any)
	}
	if value == nil {
		delete(at, keys[len(keys)-1])
	} else {
		at[keys[len(keys)-1]] = value
	}
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := status.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type list = []any

type object = map[string]any

// What a document does not have is not known: it is neither zero nor fine.
func TestWhatIsAbsentIsNotKnown(t *testing.T) {
	if s := with(t, "client.timestamp", 1); s.Problem() != "" || s.NotTolerant("") != "" || s.NotTolerant("double") != "" || s.Unsettled(100) != "" {
		t.Fatalf("of the whole: %q %q %q", s.Problem(), s.NotTolerant("double"), s.Unsettled(100))
	}
	for _, test := range []struct {
		path  string
		value any
		want  string
	}{
		{"client.database_status", nil, "the database is not available, or is not known to be"},
		{"client.database_status.available", false, "the database is not available"},
		{"client.coordinators.quorum_reachable", false, "a quorum of the coordinators cannot be reached"},
		{"client.coordinators.quorum_reachable", nil, "which coordinators there are is not known"},
		{"client.coordinators.coordinators", nil, "which coordinators there are is not known"},
		{"client.coordinators.coordinators", list{object{"address": "10.0.0.1:4500"}}, "coordinators that cannot be reached: 10.0.0.1:4500"},
		{"cluster.processes", nil, "the status names no processes"},
		{"cluster.processes", object{"a": object{"roles": list{}}}, "no process has the role storage"},
		{"cluster.messages", list{object{"name": "status_incomplete"}}, "the status is not complete"},
		{"cluster.messages", list{object{"name": "log_servers_error"}}, "the status is not complete"},
		{"cluster.messages", list{object{"name": "client_issues"}}, ""},
		{"cluster.messages", list{object{"name": "layer_status_incomplete"}}, ""},
		{"client.messages", list{object{"name": "status_incomplete_timeout"}}, "the status is not complete"},
		{"client.messages", list{object{"name": "client_issues"}}, ""},
		{"cluster.recovery_state", nil, "the status does not say where the last recovery stands"},
		{"cluster.recovery_state.active_generations", nil, "the status does not say where the last recovery stands"},
		{"cluster.data", object{}, "how many copies of the data there are is not known yet (state of the data: none)"},
		{"cluster.data", object{"state": object{"name": "initializing"}, "team_trackers": list{}}, "how many copies of the data there are is not known yet (state of the data: initializing)"},
		{"cluster.data.team_trackers", list{object{"state": object{"name": "initializing"}}}, "how many copies of the data there are is not known yet"},
		{"cluster.data.team_trackers", list{object{"state": object{"name": "healthy", "min_replicas_remaining": 2}}, object{"state": object{"name": "healing", "min_replicas_remaining": 1}}}, "some data has 1 copies left, and 2 are needed"},
		{"cluster.logs", nil, "which log servers there are is not known"},
		{"cluster.logs", list{object{}}, "how many log servers keep each commit is not known"},
		{"cluster.logs", list{object{"log_replication_factor": 2}}, "how many log servers may fail is not known"},
		{"cluster.logs", list{object{"log_replication_factor": 2, "log_fault_tolerance": 1}, object{"log_replication_factor": 2, "log_fault_tolerance": 0}}, "0 log servers may fail, and 1 must be able to"},
		{"cluster.logs", list{object{"log_replication_factor": 2, "log_fault_tolerance": 1, "remote_log_replication_factor": 4, "remote_log_fault_tolerance": 1}}, "1 remote log servers may fail, and 3 must be able to"},
		{"cluster.logs", list{object{"log_replication_factor": 2, "log_fault_tolerance": 1, "satellite_log_replication_factor": 4, "satellite_log_fault_tolerance": 1}}, "1 satellite log servers"},
		{"cluster.logs", list{object{"log_replication_factor": 2, "log_fault_tolerance": 1, "remote_log_replication_factor": 0}}, ""},
		{"cluster.fault_tolerance", nil, "how many zones may fail is not known"},
		{"cluster.fault_tolerance", object{"max_zone_failures_without_losing_data": 0}, "0 zones may fail without a loss of data, and 1 must be able to"},
		{"cluster.configuration.redundancy_mode", "triple", "some data has 2 copies left, and 3 are needed"},
		{"cluster.configuration.redundancy_mode", "single", "the redundancy mode is single, and the policy asks for double"},
		{"cluster.configuration.redundancy_mode", "three_datacenter", "the redundancy mode three_datacenter is none of"},
		{"cluster.configuration.usable_regions", nil, "the status does not say how many regions the database uses"},
		{"cluster.configuration.usable_regions", 2, "the database is configured for regions (2 usable)"},
		{"cluster.configuration.regions", list{object{"datacenters": list{object{"id": "a"}}}}, "the database is configured for regions (1 usable)"},
		{"cluster.configuration", nil, `the redundancy mode "" is none of`},
	} {
		s := with(t, test.path, test.value)
		begins(t, test.path, s.NotTolerant("double"), test.want)
		if s.Problem() != "" && s.Unsettled(0) == "" {
			t.Errorf("%s: processes may be changed while nothing is known", test.path)
		}
	}
	begins(t, "three copies in one data hall", with(t, "cluster.configuration.redundancy_mode", "triple").NotTolerant("three_data_hall"),
		"the redundancy mode is triple, and the policy asks for three_data_hall")
	for _, test := range []struct {
		recovery object
		seconds  float64
		want     string
	}{
		{object{"name": "fully_recovered", "active_generations": 1, "seconds_since_last_recovered": 120}, 120, ""},
		{object{"name": "fully_recovered", "active_generations": 1, "seconds_since_last_recovered": 119.9}, 120, "less than 120 s have passed since the last recovery"},
		{object{"name": "all_logs_recruited", "active_generations": 10, "seconds_since_last_recovered": 1}, 0, ""},
		{object{"name": "all_logs_recruited", "active_generations": 11, "seconds_since_last_recovered": 1}, 0, "the log servers have 11 generations"},
		{object{"name": "accepting_commits", "active_generations": 1, "seconds_since_last_recovered": 1}, 0, "a recovery is under way (accepting_commits)"},
	} {
		begins(t, "recovery", with(t, "cluster.recovery_state", test.recovery).Unsettled(test.seconds), test.want)
	}
}

func TestProcessesOfAMember(t *testing.T) {
	s := with(t, "client.timestamp", 1)
	for _, test := range []struct {
		id, ip string
		want   []string
	}{
		{"p1", "", []string{"10.0.0.1:4500"}},
		{"p1", "10.0.0.4", []string{"10.0.0.1:4500"}},
		{"p9", "10.0.0.4", []string{"10.0.0.4:4500"}}, // it has just begun: the status has no locality of it yet
		{"p9", "10.0.0.1", nil},                       // that one is another member
		{"", "", nil},
	} {
		var got []string
		for _, p := range s.Of(test.id, test.ip) {
			got = append(got, p.HostPort())
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q at %q: %v", test.id, test.ip, got)
		}
	}
	p := s.Cluster.Processes
	if !s.IsCoordinator(p["a"]) || !s.IsCoordinator(p["b"]) || s.IsCoordinator(p["d"]) {
		t.Error("a coordinator is known by its role, or by its address")
	}
	if p["c"].IP() != "fd00::3" || !slices.Equal(p["c"].RoleNames(), []string{"log"}) || !p["c"].HasData() {
		t.Errorf("%s %v", p["c"].IP(), p["c"].RoleNames())
	}
	if zones := s.Zones(nil); !slices.Equal(zones, []string{"z2"}) {
		t.Errorf("zones for data are %v", zones)
	}
	for entry, want := range map[status.Exclusion]bool{
		{Address: "10.0.0.1"}: true, {Address: "10.0.0.1:4500"}: true, {Address: "10.0.0.1:4501"}: false, {Address: "10.0.0.10"}: false, {}: false,
		{Locality: "locality_instance_id:p1"}: true, {Locality: "locality_zoneid:z1"}: true, {Locality: "locality_zoneid:z"}: false, {Locality: "locality_dcid:"}: false,
	} {
		if entry.Covers(p["a"]) != want {
			t.Errorf("%+v: %t", entry, !want)
		}
	}
}

// Places of another data centre are none for what leaves one. In the mode three_data_hall data halls count.
func TestPlacesThatAreLeft(t *testing.T) {
	process := func(class, zone, hall, dc string) *status.Process {
		return &status.Process{Class: class, Locality: map[string]string{"zoneid": zone, "data_hall": hall, "dcid": dc}}
	}
	leaves := []*status.Process{process("storage", "z1", "h1", "dc1")}
	s := &status.Status{}
	s.Cluster.Processes = map[string]*status.Process{
		"a": leaves[0], "b": process("storage", "z2", "h2", "dc1"), "c": process("storage", "z3", "", "dc1"), "d": process("storage", "z4", "h3", "dc2"),
		"e": process("log", "z5", "h1", "dc1"), "f": process("log", "z6", "h1", "dc1"), "g": process("log", "z7", "h2", "dc1"), "h": process("log", "z7", "h2", "dc1"),
	}
	for _, test := range []struct {
		what      string
		got, want []string
	}{
		{"zones", s.Zones(leaves), []string{"z2", "z3"}},
		{"zones, if none leaves", s.Zones(nil), []string{"z1", "z2", "z3", "z4"}},
		{"zones for logs", s.LogZones(leaves), []string{"z5", "z6", "z7"}},
		{"halls", s.Halls(leaves), []string{"h2"}},
		{"halls for logs", s.LogHalls(leaves), []string{"h1"}},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: %v, not %v", test.what, test.got, test.want)
		}
	}
}

func TestWhatIsNoStatus(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "is not a JSON document",
		"ERROR: timed out":           "is not a JSON document",
		`{"cluster":{}}`:             "with the field client",
		whole + whole:                "is not a JSON document",
		`{"client":{},"cluster":[]}`: "must be of type",
		`{"client":{},"cluster":{"processes":{"a":{"excluded":"yes"}}}}`:       "excluded must be of type bool",
		`{"client":{},"cluster":{"recovery_state":{"active_generations":{}}}}`: "active_generations must be of type int64",
	} {
		if _, err := status.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50q: %v", text, err)
		}
	}
}
