package arangodb

import (
	"testing"

	"usher.sh/usher/test/arangosim"
	"usher.sh/usher/test/httpfault"
)

func agents(n int) func() *arangosim.Cluster {
	return func() *arangosim.Cluster {
		return arangosim.New(arangosim.Config{Agents: n, Coordinators: 1, Secret: testSecret})
	}
}

func kill(ids ...string) func(*testing.T, *bench) {
	return func(_ *testing.T, b *bench) {
		for _, id := range ids {
			b.sim.Kill(id)
		}
	}
}

// behind lets an agent miss some entries.
func behind(id string) func(*testing.T, *bench) {
	return func(_ *testing.T, b *bench) {
		b.sim.Stall(id, true)
		b.sim.Set("Sync/Something", "else")
		b.ticks(2)
	}
}

// Agent a leads.
func agentCases() []numbered {
	allowed := []string{}
	return cases([]conformance{
		{name: "follower, the others answer", sim: agents(3), member: agntB, replace: []string{"OldPodThere"}, deleted: allowed},
		{name: "43 leader", sim: agents(3), member: agntA, evict: []string{"LeadsAgency"}, needed: []string{"StepDown"}, replace: []string{"OldPodThere"}},
		{name: "43 leader, another is behind", sim: agents(3), member: agntA, arrange: behind(agntC), evict: []string{"LeadsAgency"}, replace: []string{"EntriesAtRisk", "OldPodThere"}},
		{name: "43 leader, another is dead", sim: agents(3), member: agntA, arrange: kill(agntC), evict: []string{"LeadsAgency", "QuorumAtRisk"}, replace: []string{"EntriesAtRisk", "OldPodThere"}},
		{name: "43 leader of five, one is dead", sim: agents(5), member: agntA, arrange: kill("AGNT-e"), evict: []string{"LeadsAgency"}, needed: []string{"StepDown"}, replace: []string{"OldPodThere"}},
		{name: "44 leader silent, another names it", sim: agents(3), member: agntB, arrange: kill(agntA), evict: []string{"AgencyNotServing"}, replace: []string{"AgencyNotServing", "OldPodThere"}},
		{name: "no other follower answers", sim: agents(3), member: agntB, arrange: kill(agntC), evict: []string{"NoFollowerAnswers", "QuorumAtRisk"}, replace: []string{"EntriesAtRisk", "OldPodThere"}, deleted: []string{"EntriesAtRisk"}},
		{name: "46 replies disagree", sim: agents(3), member: agntB, evict: []string{"AgencyNotServing"}, replace: []string{"AgencyNotServing", "OldPodThere"}, arrange: func(_ *testing.T, b *bench) {
			b.sim.Isolate(agntA, true)
			b.ticks(1)
		}},
		{name: "46 no leader anywhere", sim: agents(3), member: agntB, evict: []string{"AgencyNotServing"}, replace: []string{"AgencyNotServing", "OldPodThere"}, arrange: func(_ *testing.T, b *bench) {
			b.sim.Isolate(agntA, true)
			b.sim.Kill(agntA)
			b.sim.Isolate(agntC, true)
			b.ticks(1)
			b.sim.Restart(agntC)
		}},
		{name: "another answers and is cut off from the leader", sim: agents(3), member: agntB, evict: []string{"NoFollowerAnswers", "QuorumAtRisk"}, replace: []string{"EntriesAtRisk", "OldPodThere"}, arrange: func(_ *testing.T, b *bench) {
			b.sim.Isolate(agntC, true)
			b.ticks(1)
		}},
		{name: "47 another is behind", sim: agents(3), member: agntB, arrange: behind(agntC), replace: []string{"EntriesAtRisk", "OldPodThere"}, deleted: []string{"EntriesAtRisk"}},
		{name: "the one itself is dead, the others answer", sim: agents(3), member: agntB, arrange: kill(agntB), replace: []string{"OldPodThere"}, deleted: allowed},
		{name: "49 the only agent", sim: agents(1), member: agntA, evict: []string{"LeadsAgency", "NoFollowerAnswers", "QuorumAtRisk"}, replace: []string{"EntriesAtRisk", "OldPodThere"}},
		{name: "50 pod still there", sim: agents(3), member: agntC, replace: []string{"OldPodThere"}, deleted: allowed},
		{name: "two agents: a follower", sim: agents(2), member: agntB, evict: []string{"NoFollowerAnswers", "QuorumAtRisk"}, replace: []string{"EntriesAtRisk", "OldPodThere"}},
		{name: "five agents, two dead: one follower answers and no majority would", sim: agents(5), member: agntB, arrange: kill("AGNT-d", "AGNT-e"), evict: []string{"QuorumAtRisk"}, replace: []string{"EntriesAtRisk", "OldPodThere"}},
		{name: "five agents, one dead", sim: agents(5), member: agntB, arrange: kill("AGNT-e"), replace: []string{"OldPodThere"}, deleted: allowed},
		{name: "no such agent", sim: agents(3), member: "AGNT-z", evict: []string{"MemberUnknown"}, replace: []string{"MemberUnknown", "OldPodThere"}},
		{name: "a coordinator is no agent", sim: agents(3), member: "CRDN-a", evict: []string{"FactMissing", "FactMissing", "FactMissing"}, replace: []string{"FactMissing", "OldPodThere"}},
	}, func(c *conformance) { c.role = "agent" })
}

func singleCases() []numbered {
	single := func() *arangosim.Cluster { return arangosim.New(arangosim.Config{Singles: 1, Secret: testSecret}) }
	only := []string{"OnlyServer"}
	return cases([]conformance{
		{name: "53 mode Single", sim: single, evict: only, replace: only},
		{name: "53 mode Single, down", sim: single, arrange: down, evict: []string{"NoEvidence", "OnlyServer"}, replace: []string{"NoEvidence", "OnlyServer"}},
	}, func(c *conformance) { c.role, c.member, c.never = "single", "SNGL-a", true })
}

// Server a leads.
func failoverCases() []numbered {
	pair := func() *arangosim.Cluster {
		return arangosim.New(arangosim.Config{Agents: 3, Singles: 2, Secret: testSecret})
	}
	alsoLeads := func(_ *testing.T, b *bench) {
		b.sim.Inject(httpfault.Fault{Server: "SNGL-b", Path: "/_admin/server/availability", Status: 200, Body: `{"mode":"default"}`})
	}
	failed := both(kill("SNGL-a"), ticks(12))
	return cases([]conformance{
		{name: "follower", sim: pair, member: "SNGL-b"},
		{name: "55 leader", sim: pair, member: "SNGL-a", evict: []string{"LeadsDeployment"}, replace: []string{"LeadsDeployment"}},
		{name: "56 leader does not answer", sim: pair, member: "SNGL-b", arrange: kill("SNGL-a"), evict: []string{"LeaderUncertain"}, replace: []string{"LeaderUncertain"}},
		{name: "56 the agency names no leader", sim: pair, member: "SNGL-b", arrange: set("Plan/AsyncReplication/Leader", nil), evict: []string{"LeaderUncertain"}, replace: []string{"LeaderUncertain"}},
		{name: "the former leader, another leads", sim: pair, member: "SNGL-a", arrange: failed},
		{name: "the new leader", sim: pair, member: "SNGL-b", arrange: failed, evict: []string{"LeadsDeployment"}, replace: []string{"LeadsDeployment"}},
		{name: "58 both take writes", sim: pair, member: "SNGL-b", arrange: alsoLeads, evict: []string{"LeaderUncertain"}, replace: []string{"LeaderUncertain"}},
		{name: "58 both take writes, the leader", sim: pair, member: "SNGL-a", arrange: alsoLeads, evict: []string{"LeaderUncertain", "LeadsDeployment"}, replace: []string{"LeaderUncertain", "LeadsDeployment"}},
		{name: "agency down", sim: pair, member: "SNGL-b", arrange: kill(agntB, agntC), evict: []string{"AgencyNotServing"}, replace: []string{"AgencyNotServing"}},
	}, func(c *conformance) { c.role = "single-active-failover" })
}
