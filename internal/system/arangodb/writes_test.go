package arangodb

import (
	"testing"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/test/arangosim"
)

const diskFollows = "dbserver-with-its-disk" // the role on the page

// shared is a cluster of so many dbservers with one shard that is planned for all of them, of which these hold it.
func shared(concern, copies int, holders ...int) func() *arangosim.Cluster {
	return func() *arangosim.Cluster {
		c := cluster(max(copies, 3))
		var planned, current []string
		for n := range copies {
			planned = append(planned, arangosim.ID("PRMR", n))
		}
		for _, n := range holders {
			current = append(current, arangosim.ID("PRMR", n))
		}
		c.AddCollection("c", copies, planned)
		c.Set("Plan/Collections/_system/c/writeConcern", concern)
		c.Set("Current/Collections/_system/c/sc0/servers", list2any(current))
		return c
	}
}

// What the list calls a wait is WritesNeedIt here. A leader hands over first, which the list has as a step that follows.
func writeCases() []numbered {
	resign := []string{ResignLeadership}
	one, two, three := shared(1, 2, 0), shared(2, 3, 1, 2), shared(1, 3, 1, 0)
	six := shared(6, 6, 0, 1, 2, 4, 5)
	ignored := set("Plan/Databases", map[string]any{"other": map[string]any{}})
	return cases([]conformance{
		{name: "59 one of two must be written, A has all: A", sim: one, member: prmrA, evict: []string{"LeadsShards", "WritesNeedIt"}},
		{name: "59 one of two must be written, A has all: B", sim: one, member: prmrB},
		{name: "one of two must be written, both have all: B", sim: shared(1, 2, 0, 1), member: prmrB},
		{name: "one of two must be written, both have all and B is bad: A", sim: shared(1, 2, 0, 1), member: prmrA, evict: []string{"LeadsShards", "WritesNeedIt"}, arrange: set("Supervision/Health/PRMR-b/Status", "BAD")},
		{name: "61 two of three must be written, B and C have all: A", sim: two, member: prmrA, evict: []string{"LeadsShards"}, needed: resign},
		{name: "61 two of three must be written, B and C have all: B", sim: two, member: prmrB, evict: []string{"LeadsShards", "WritesNeedIt"}},
		{name: "61 two of three must be written, B and C have all: C", sim: two, member: prmrC, evict: []string{"WritesNeedIt"}},
		{name: "62 one of three must be written, A and B have all: A", sim: three, member: prmrA, evict: []string{"LeadsShards"}, needed: resign},
		{name: "62 one of three must be written, A and B have all: B", sim: three, member: prmrB, evict: []string{"LeadsShards"}, needed: resign},
		{name: "62 one of three must be written, A and B have all: C", sim: three, member: prmrC},
		{name: "64 six of six must be written, D has not all: A", sim: six, member: prmrA, evict: []string{"LeadsShards", "WritesNeedIt"}},
		{name: "64 six of six must be written, D has not all: B", sim: six, member: prmrB, evict: []string{"WritesNeedIt"}},
		{name: "64 six of six must be written, D has not all: C", sim: six, member: prmrC, evict: []string{"WritesNeedIt"}},
		{name: "64 six of six must be written, D has not all: D", sim: six, member: "PRMR-d"},
		{name: "64 six of six must be written, D has not all: E", sim: six, member: "PRMR-e", evict: []string{"WritesNeedIt"}},
		{name: "64 six of six must be written, D has not all: F", sim: six, member: "PRMR-f", evict: []string{"WritesNeedIt"}},
		{name: "65 a database that is not planned any more", sim: two, member: prmrC, arrange: ignored},
		{name: "one copy, handed over a moment ago: no server could take it", sim: shards(1, []string{prmrA}), member: prmrA, arrange: both(resigned, now("2026-01-01T00:05:00Z"))},
		{name: "one copy, handed over long ago", sim: shards(1, []string{prmrA}), member: prmrA, arrange: resigned, evict: []string{"LeadsShards"}, needed: resign},
		{name: "supervision in maintenance", sim: one, member: prmrB, evict: []string{"SupervisionMaintenance"}, arrange: func(_ *testing.T, b *bench) { b.sim.SetMaintenance(true) }},
		{name: "agency without a majority, disk follows", sim: one, member: prmrB, evict: []string{"AgencyNotServing"}, arrange: both(kill(agntB, agntC), ticks(1))},
	}, evictOnly, func(c *conformance) { c.role = diskFollows })
}

// Each dbserver leaves with its disk and comes back, and no write is ever refused meanwhile.
func TestEveryDBServerLeavesWithItsDisk(t *testing.T) {
	b := newBench(t, plain())
	b.sim.AddCollection("wide", 3, []string{prmrA, prmrB, prmrC})
	b.sim.Set("Plan/Collections/_system/wide/writeConcern", 2)
	for _, member := range []string{prmrA, prmrB, prmrC} {
		for tick := 0; b.evict(diskFollows, member).Answer != eviction.Allowed; tick++ {
			if tick > 60 {
				t.Fatalf("%s may not go: %s", member, said(b.evict(diskFollows, member)))
			}
			for _, step := range b.evict(diskFollows, member).Needed {
				if _, err := b.sys.Prepare(t.Context(), b.step(step.Name, member)); err != nil {
					t.Error(err)
				}
			}
			b.pass(1)
		}
		b.sim.Kill(member)
		for range 3 {
			for _, shard := range []string{"_system/c/sc0", "_system/c/sc1", "_system/c/sc2", "_system/wide/swide0"} {
				if !b.sim.Write(shard) {
					t.Fatalf("%s is away, and %s takes no writes", member, shard)
				}
			}
		}
		b.sim.Restart(member)
	}
	if lost := b.sim.Lost(); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
}
