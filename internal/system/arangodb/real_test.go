package arangodb

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system/arangodb/agency"
	"usher.sh/usher/test/arangosim"
	"usher.sh/usher/test/httpfault"
)

// realData reads a file of real clusters, from where USHER_REAL_DATA points or from beside the project.
func realData(t testing.TB, name string) []byte {
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

// dump is a real cluster as it was read by hand: three coordinators, and three dbservers of which one leads every shard, one
// follows in all of them and is in sync, and one has none. Every server is GOOD.
type dump struct {
	file                 string
	leads, follows, idle string
	host                 string // first label of the leader's host name
	shards               int
	coordinators         []string
	prototype            string // the shard of _users, which all other collections are distributed like
}

var dumps = []dump{
	{
		"agency_dump.3.7.json", "PRMR-jp58fywx", "PRMR-0ycgpshs", "PRMR-z1pnzdqg", "cluster-nlqetu-dbserver-jp58fywx", 14,
		[]string{"CRDN-ja1awkps", "CRDN-lrbs0n4f", "CRDN-yyouk5qx"},
		"4010001/s4010002",
	},
	{
		"agency_dump.3.9.json", "PRMR-a24adubi", "PRMR-n92yizyp", "PRMR-rg51yv2h", "cluster-uexabr-dbserver-a24adubi", 12,
		[]string{"CRDN-cg5kjymo", "CRDN-ssc2yc0x", "CRDN-g6s8btds"},
		"10001/s10002",
	},
	// One collection is a satellite here, and has two copies all the same.
	{
		"agency_dump.3.9.satellite.json", "PRMR-a24adubi", "PRMR-n92yizyp", "PRMR-rg51yv2h", "cluster-uexabr-dbserver-a24adubi", 12,
		[]string{"CRDN-cg5kjymo", "CRDN-ssc2yc0x", "CRDN-g6s8btds"},
		"10001/s10002",
	},
	// There are jobs in every state here, which say of no server that they are about it.
	{
		"agency_dump.3.9.jobs.json", "PRMR-a24adubi", "PRMR-n92yizyp", "PRMR-rg51yv2h", "cluster-uexabr-dbserver-a24adubi", 12,
		[]string{"CRDN-cg5kjymo", "CRDN-ssc2yc0x", "CRDN-g6s8btds"},
		"10001/s10002",
	},
	// The one that follows has resigned its leadership a while ago.
	{
		"agency_dump.3.10.json", "PRMR-txsd4acm", "PRMR-bdoiz1zq", "PRMR-nm2hk9oh", "cluster-ivikxa-dbserver-txsd4acm", 12,
		[]string{"CRDN-pkf5bz5s", "CRDN-ztbhomgn", "CRDN-tl9xhyyw"},
		"10001/s10002",
	},
}

func (d *dump) load(t *testing.T) *bench {
	t.Helper()
	sim, err := arangosim.Load(realData(t, d.file), arangosim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return newBench(t, sim)
}

func TestWhoMayLeaveRealClusters(t *testing.T) {
	for _, d := range dumps {
		t.Run(d.file, func(t *testing.T) {
			b := d.load(t)
			if state := parsed(t, realData(t, d.file)); len(state.Shards) != d.shards {
				t.Errorf("%d shards, want %d", len(state.Shards), d.shards)
			}
			// It has data, and leads: all of it must be moved first. Where its disk follows it, the lead only.
			b.want(d.leads, verdicts{evict: []string{"LeadsShards", "NotDrained"}, steps: []string{CleanOut}, withDisk: []string{"LeadsShards"}, first: []string{ResignLeadership}})
			// It has data. Each shard's leader can write without it: one server is what a write must reach.
			b.want(d.follows, verdicts{evict: []string{"NotDrained"}, steps: []string{CleanOut}})
			// It has nothing and may be given a shard at any moment: it is not on the list of those that are cleaned out.
			b.want(d.idle, verdicts{evict: []string{"NotDrained"}, steps: []string{CleanOut}})
			for _, id := range d.coordinators {
				if evict, replace := b.evict("coordinator", id), b.replace("coordinator", id); evict.Answer != eviction.Allowed || replace.Answer != eviction.Allowed {
					t.Errorf("%s has no data: evict is %s, replace is %s", id, evict.Answer, replace.Answer)
				}
			}
			// However a policy calls it, it is the same server.
			b.want("DBServer0001", b.said(map[bool]string{true: d.follows, false: d.leads}[d.file == "agency_dump.3.10.json"]))
			b.want(d.host, b.said(d.leads))
		})
	}
}

// verdicts are the reasons why a dbserver may not leave, not be replaced, and not leave with its disk; and the steps that are
// needed before it leaves, without its disk and with it. nil: it may.
type verdicts struct {
	evict, steps, replace, withDisk, first []string
}

func (b *bench) said(member string) verdicts {
	b.t.Helper()
	evict, withDisk := b.evict("dbserver", member), b.evict(diskFollows, member)
	return verdicts{
		evict: reasons(evict), steps: names(evict), replace: reasons(b.replace("dbserver", member)),
		withDisk: reasons(withDisk), first: names(withDisk),
	}
}

func names(v eviction.Verdict) []string {
	var all []string
	for _, step := range v.Needed {
		all = append(all, step.Name)
	}
	return all
}

func (b *bench) want(member string, want verdicts) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.said(member), cmp.AllowUnexported(verdicts{}), cmpopts.EquateEmpty()); diff != "" {
		b.t.Errorf("%s (-want +got):\n%s", member, diff)
	}
}

// What would be said if one thing were otherwise. The follower in sync is what the leader's data rests on, and the other way
// round; no server's data rests on the one that has nothing.
func TestWhoMayLeaveRealClustersInTrouble(t *testing.T) {
	const health = "Supervision/Health/"
	cleanOut, resign := []string{CleanOut}, []string{ResignLeadership}
	for _, d := range dumps {
		cases := []struct {
			name                 string
			set                  string
			value                any
			leads, follows, idle verdicts
		}{
			{
				"the one that has nothing is cleaned out: it may go, and then there is no room for two copies", "Target/CleanedServers",
				[]any{d.idle},
				verdicts{evict: []string{"LeadsShards", "NoCapacity", "NotDrained"}, withDisk: []string{"LeadsShards"}, first: resign},
				verdicts{evict: []string{"NoCapacity", "NotDrained"}},
				verdicts{},
			},
			{
				"the follower has failed: the leader has the last copies", health + d.follows + "/Status", "FAILED",
				verdicts{evict: []string{"LeadsShards", "NotDrained"}, steps: cleanOut, replace: []string{"NoFollowerInSync"}, withDisk: []string{"LeadsShards", "WritesNeedIt"}},
				verdicts{evict: []string{"NotDrained", "NotGood"}},
				verdicts{evict: []string{"NotDrained"}, steps: cleanOut},
			},
			{
				"the leader has failed, and no server has taken over yet: the follower has the last copies", health + d.leads + "/Status", "FAILED",
				verdicts{evict: []string{"LeadsShards", "NotDrained", "NotGood"}, withDisk: []string{"LeadsShards"}},
				verdicts{evict: []string{"NotDrained"}, steps: cleanOut, replace: []string{"NoFollowerInSync"}, withDisk: []string{"WritesNeedIt"}},
				verdicts{evict: []string{"NotDrained"}, steps: cleanOut},
			},
			{
				"the follower may not take over one shard, which all others go with", "Current/Collections/_system/" + d.prototype + "/failoverCandidates",
				[]any{d.leads},
				verdicts{evict: []string{"LeadsShards", "NotDrained"}, steps: cleanOut, replace: []string{"NoFollowerInSync"}, withDisk: []string{"LeadsShards"}, first: resign},
				verdicts{evict: []string{"NotDrained"}, steps: cleanOut},
				verdicts{evict: []string{"NotDrained"}, steps: cleanOut},
			},
			{
				"the supervision is in maintenance: nothing is moved", "Supervision/Maintenance", "2026-01-01T00:00:00Z",
				verdicts{evict: []string{"LeadsShards", "NotDrained", "SupervisionMaintenance"}, withDisk: []string{"LeadsShards", "SupervisionMaintenance"}},
				verdicts{evict: []string{"NotDrained", "SupervisionMaintenance"}, withDisk: []string{"SupervisionMaintenance"}},
				verdicts{evict: []string{"NotDrained", "SupervisionMaintenance"}, withDisk: []string{"SupervisionMaintenance"}},
			},
		}
		for _, c := range cases {
			t.Run(d.file+": "+c.name, func(t *testing.T) {
				b := d.load(t)
				b.sim.Set(c.set, c.value)
				b.want(d.leads, c.leads)
				b.want(d.follows, c.follows)
				b.want(d.idle, c.idle)
				if only := b.evidence(d.leads).Members[d.leads]["onlyHere"].([]string); c.leads.replace != nil && len(only) != d.shards {
					t.Errorf("it has %d shards alone, want all %d: %v", len(only), d.shards, only)
				}
			})
		}
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

// A real cluster's state goes on living in the simulator: whichever dbserver is cleaned out may go with its disk.
func TestRealClustersAreDrained(t *testing.T) {
	for _, d := range dumps {
		for _, server := range []string{d.leads, d.follows, d.idle} {
			t.Run(d.file+" "+server, func(t *testing.T) {
				b := d.load(t)
				b.leave(server)
				b.sim.Wipe(server)
				if lost := b.sim.Lost(); len(lost) > 0 {
					t.Errorf("lost %v", lost)
				}
			})
		}
	}
}

// Older versions say who their agents are; of others three are made up.
func TestRealAgents(t *testing.T) {
	for file, agents := range map[string][]string{
		"agency_dump.3.7.json":           {"AGNT-3l1gsq1v", "AGNT-8codotpg", "AGNT-vxyqq4a4"},
		"agency_dump.3.9.json":           {"AGNT-8sek6mbr", "AGNT-ec6b7qdz", "AGNT-q2cs6q1j"},
		"agency_dump.3.9.jobs.json":      {"AGNT-8sek6mbr", "AGNT-ec6b7qdz", "AGNT-q2cs6q1j"},
		"agency_dump.3.9.satellite.json": {"AGNT-8sek6mbr", "AGNT-ec6b7qdz", "AGNT-q2cs6q1j"},
		"agency_dump.3.10.json":          {agntA, agntB, agntC},
	} {
		b := (&dump{file: file}).load(t)
		got := slices.DeleteFunc(b.sim.Members(), func(id string) bool { return !strings.HasPrefix(id, "AGNT") })
		if diff := cmp.Diff(agents, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		if evidence := b.evidence(agents[1]); evidence.System["agencyProblem"] != "" || evidence.Members[agents[1]]["copiesWithout"] != int64(2) {
			t.Errorf("%s: %s, %v", file, evidence.Summary, evidence.Members[agents[1]])
		}
	}
}

func BenchmarkLoadOfARealDump(b *testing.B) {
	data := realData(b, "agency_dump.3.9.jobs.json")
	b.ReportAllocs()
	for b.Loop() {
		sim, err := arangosim.Load(data, arangosim.Config{})
		if err != nil {
			b.Fatal(err)
		}
		for range 60 {
			sim.Tick()
		}
	}
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

// Jobs that name no server belong to none, and the simulator ends them at once.
func TestRealJobsThatNameNoServer(t *testing.T) {
	b := dumps[3].load(t)
	for _, member := range []string{dumps[3].leads, dumps[3].follows, dumps[3].idle} {
		if facts := b.evidence(member).Members[member]; facts["resign"] != "" || facts["cleanOut"] != "" {
			t.Errorf("%s has jobs: %v", member, facts)
		}
	}
	b.ticks(2)
	if jobs := b.sim.CleanOuts(); len(jobs) > 0 {
		t.Errorf("%v are cleaned out", jobs)
	}
	b.leave(dumps[3].idle)
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
	// It leads, no agent follows it, and no other has its entries.
	b := newBench(t, agents(1)())
	b.sim.Inject(httpfault.Fault{Path: "/_api/agency/config", Status: 200, Body: string(realData(t, "config.json"))})
	verdict := b.evict("agent", config.ID)
	if diff := cmp.Diff([]string{"LeadsAgency", "NoFollowerAnswers", "QuorumAtRisk"}, reasons(verdict)); diff != "" || len(verdict.Needed) > 0 {
		t.Errorf("needed %v, reasons (-want +got):\n%s", verdict.Needed, diff)
	}
}
