package arangodb

import (
	"testing"

	"pgregory.net/rapid"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/test/arangosim"
	"usher.sh/usher/test/httpfault"
)

// Whatever has happened to a deployment, what is allowed on what it says now loses neither data nor the majority. What is
// on the disks is asked, which the client never sees.
func TestWhatIsAllowedLosesNothing(t *testing.T) {
	allowed := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		sim := arangosim.New(arangosim.Config{Agents: 3, DBServers: 4, Coordinators: 2, Secret: testSecret})
		sim.AddCollection("c", 2, []string{prmrA, prmrB}, []string{prmrB, prmrC}, []string{"PRMR-d", prmrA})
		sim.AddCollection("d", 2, []string{prmrA, prmrB}, []string{prmrB, prmrC}, []string{"PRMR-d", prmrA})
		sim.Set("Plan/Collections/_system/d/distributeShardsLike", "c")
		sim.AddCollection("one", 1, []string{prmrC})
		b := newBench(t, sim)
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			happen(rt, b)
			evidence := b.evidence(sim.Members()...)
			for _, id := range sim.Members() {
				role := map[string]string{"PRMR": "dbserver", "AGNT": "agent", "CRDN": "coordinator"}[id[:4]]
				in := b.input(role, id, evidence)
				in.Deleted = true
				if lose, why := sim.WouldLose(id); eviction.Judge(in).Answer == eviction.Allowed {
					allowed["evict "+role]++
					if lose {
						rt.Fatalf("%s may be evicted: %s", id, why)
					}
				}
				if lose, why := sim.WouldLoseWithDisk(id); eviction.JudgeReplace(in).Answer == eviction.Allowed {
					allowed["replace "+role]++
					if lose {
						rt.Fatalf("%s may be replaced: %s", id, why)
					}
				}
			}
		}
	})
	t.Logf("allowed: %v", allowed)
	for _, what := range []string{"evict dbserver", "evict agent", "replace dbserver", "replace agent"} {
		if allowed[what] == 0 {
			t.Errorf("%s was never allowed: nothing was tested", what)
		}
	}
}

var sometimes = []httpfault.Fault{
	{Path: cleanOutPath, Times: 1, Lost: true},
	{Path: "/_admin/cluster", Times: 2, Status: 503},
	{Path: "/_api/agency/read", Times: 1, Cut: 200},
	{Path: "/_api/agency/config", Times: 1, Refuse: true},
	{Path: "/_api/agency/config", Times: 1, Status: 401},
	{Path: "/_admin/cluster/cancelAgencyJob", Times: 1, Status: 412},
}

// happen lets something happen to the deployment. A cut between agents is noticed by them a tick later, not by us before.
func happen(rt *rapid.T, b *bench) {
	sim := b.sim
	dbserver := rapid.SampledFrom([]string{prmrA, prmrB, prmrC, "PRMR-d"}).Draw(rt, "dbserver")
	member := rapid.SampledFrom(sim.Members()).Draw(rt, "member")
	switch rapid.IntRange(0, 13).Draw(rt, "event") {
	case 0, 1, 2, 3:
		b.ticks(rapid.IntRange(1, 5).Draw(rt, "ticks"))
	case 4:
		for _, shard := range []string{"_system/c/sc0", "_system/c/sc1", "_system/c/sc2", "_system/d/sd0", "_system/one/sone0"} {
			sim.Write(shard)
		}
	case 5, 6:
		_ = b.prepare(CleanOut, dbserver) // faults are part of it
	case 7:
		_, _ = b.sys.Undo(b.t.Context(), b.step(CleanOut, dbserver))
	case 8:
		sim.Kill(member)
	case 9, 10:
		for _, id := range sim.Members() {
			sim.Restart(id)
			sim.Isolate(id, false)
			sim.Stall(id, false)
		}
		sim.SetMaintenance(false)
	case 11:
		sim.Isolate(member, true)
		b.ticks(1)
	case 12:
		sim.Stall(member, true)
	case 13:
		sim.Inject(rapid.SampledFrom(sometimes).Draw(rt, "fault"))
		sim.SetMaintenance(rapid.Bool().Draw(rt, "maintenance"))
		sim.SetForgetful(rapid.Bool().Draw(rt, "forgetful"))
	}
}
