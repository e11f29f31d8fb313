package arangodb

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system/arangodb/agency"
	"usher.sh/usher/internal/system/arangodb/arangosim"
)

// realData reads a file of real clusters, from where USHER_REAL_DATA points or from beside the project.
func realData(t *testing.T, name string) []byte {
	t.Helper()
	folder := os.Getenv("USHER_REAL_DATA")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	data, err := os.ReadFile(filepath.Join(folder, "arangodb", name))
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: there is no dump of a real agency: %v (set USHER_REAL_DATA)", err)
	}
	return data
}

// What the dumps hold was counted by hand: 12 or 14 shards with two copies each, on three dbservers.
func TestRealAgencies(t *testing.T) {
	cases := []struct {
		file   string
		shards int
		// planned, led and onlyHere by server.
		use map[string][3]int
	}{
		{"agency_dump.3.7.json", 14, map[string][3]int{"PRMR-z1pnzdqg": {0, 0, 0}, "PRMR-0ycgpshs": {14, 0, 0}, "PRMR-jp58fywx": {14, 14, 0}}},
		{"agency_dump.3.9.json", 12, map[string][3]int{"PRMR-rg51yv2h": {0, 0, 0}, "PRMR-n92yizyp": {12, 0, 0}, "PRMR-a24adubi": {12, 12, 0}}},
		{"agency_dump.3.9.satellite.json", 12, map[string][3]int{"PRMR-rg51yv2h": {0, 0, 0}, "PRMR-n92yizyp": {12, 0, 0}, "PRMR-a24adubi": {12, 12, 0}}},
		{"agency_dump.3.9.jobs.json", 12, map[string][3]int{"PRMR-rg51yv2h": {0, 0, 0}, "PRMR-n92yizyp": {12, 0, 0}, "PRMR-a24adubi": {12, 12, 0}}},
		{"agency_dump.3.10.json", 12, map[string][3]int{"PRMR-nm2hk9oh": {0, 0, 0}, "PRMR-bdoiz1zq": {12, 0, 0}, "PRMR-txsd4acm": {12, 12, 0}}},
	}
	for _, c := range cases {
		t.Run(c.file, func(t *testing.T) {
			sim, err := arangosim.Load(realData(t, c.file))
			if err != nil {
				t.Fatal(err)
			}
			b := newBench(t, sim)
			if state := parsed(t, realData(t, c.file)); len(state.Shards) != c.shards {
				t.Errorf("%d shards, want %d", len(state.Shards), c.shards)
			}
			for server, want := range c.use {
				facts := b.evidence(server).Members[server]
				got := [3]int{len(facts["shards"].([]string)), len(facts["leads"].([]string)), len(facts["onlyHere"].([]string))}
				if got != want {
					t.Errorf("%s is planned for, leads, has alone %v shards, want %v", server, got, want)
				}
				if verdict := b.evict("dbserver", server); verdict.Answer != eviction.Blocked || len(verdict.Needed) != 1 {
					t.Errorf("%s: evict is %s, needed %v: %s", server, verdict.Answer, verdict.Needed, said(verdict))
				}
				if verdict := b.replace("dbserver", server); verdict.Answer != eviction.Allowed {
					t.Errorf("%s: replace is %s: %s", server, verdict.Answer, said(verdict))
				}
			}
		})
	}
}

func parsed(t *testing.T, dump []byte) *agency.State {
	t.Helper()
	var file struct {
		Agency json.RawMessage `json:"agency"`
	}
	if err := json.Unmarshal(dump, &file); err != nil {
		t.Fatal(err)
	}
	state, err := agency.Parse([]byte("[" + string(file.Agency) + "]"))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// A real cluster's state goes on living in the simulator: its leader is cleaned out and may go.
func TestRealAgencyIsDrained(t *testing.T) {
	for _, file := range []string{"agency_dump.3.7.json", "agency_dump.3.9.satellite.json", "agency_dump.3.10.json"} {
		t.Run(file, func(t *testing.T) {
			sim, err := arangosim.Load(realData(t, file))
			if err != nil {
				t.Fatal(err)
			}
			b := newBench(t, sim)
			for server := range b.leaders(t) {
				b.leave(server)
				sim.Wipe(server)
			}
			if lost := sim.Lost(); len(lost) > 0 {
				t.Errorf("lost %v", lost)
			}
		})
	}
}

// leaders are the dbservers that lead shards.
func (b *bench) leaders(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, id := range b.sim.Members() {
		if leads, _ := b.evidence(id).Members[id]["leads"].([]string); len(leads) > 0 {
			all[id] = true
		}
	}
	return all
}

func TestRealJobs(t *testing.T) {
	state := parsed(t, realData(t, "agency_dump.3.10.json"))
	job := state.Job(agency.ResignLeadership, "PRMR-bdoiz1zq")
	if job.ID != "10041" || job.State != agency.Finished || job.Ended().IsZero() {
		t.Errorf("job is %+v", job)
	}
	counts := map[agency.JobState]int{}
	for _, job := range parsed(t, realData(t, "agency_dump.3.9.jobs.json")).Jobs {
		counts[job.State]++
	}
	want := map[agency.JobState]int{agency.ToDo: 2, agency.Pending: 1, agency.Finished: 4, agency.Failed: 3}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

func TestRealConfig(t *testing.T) {
	config, err := agency.ParseConfig(realData(t, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if config.Commit != 94 || config.ID != config.Leader || !strings.HasPrefix(config.ID, "AGNT-fd0f4fc7") || config.Size != 1 {
		t.Errorf("configuration is %+v", config)
	}
	if view := agency.Agree([]agency.Config{config}); view.Problem != "" || view.Quorum != 1 || len(view.Holding) != 1 {
		t.Errorf("view is %+v", view)
	}
}
