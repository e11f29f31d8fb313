package arangodb

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/test/arangosim"
)

// A dbserver that may be replaced is lost for good, and soon each of its shards has a leader that takes writes: nothing is
// lost, and nothing waits for a server that does not come back.
func TestWhoIsReplacedIsNotMissed(t *testing.T) {
	allowed, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, families(rt))
		if id := rapid.SampledFrom([]string{"", prmrB, prmrC}).Draw(rt, "has failed"); id != "" {
			b.sim.Kill(id)
			b.ticks(rapid.IntRange(5, 14).Draw(rt, "ticks since")) // before that the supervision calls it GOOD
		}
		facts := b.evidence(prmrA).Members[prmrA]
		held := slices.Concat(facts["leads"].([]string), facts["shardsHeld"].([]string))
		if b.replace("dbserver", prmrA).Answer != eviction.Allowed {
			refused++
			return
		}
		allowed++
		b.sim.Wipe(prmrA)
		b.ticks(25)
		for _, shard := range held {
			if !b.sim.Write(shard) {
				rt.Fatalf("%s takes no writes", shard)
			}
		}
		if lost := b.sim.Lost(); len(lost) > 0 {
			rt.Fatalf("lost %v", lost)
		}
	})
	if allowed == 0 || refused == 0 {
		t.Errorf("allowed %d times, refused %d times: nothing was tested", allowed, refused)
	}
	t.Logf("allowed %d times, refused %d times", allowed, refused)
}

// families is a cluster of four dbservers with two collections that are distributed alike and one for itself, in which some
// followers have missed a write.
func families(rt *rapid.T) *arangosim.Cluster {
	c := cluster(4)
	plan := func(name string) []string {
		copies := rapid.IntRange(2, 3).Draw(rt, "copies of "+name)
		return rapid.Permutation([]string{prmrA, prmrB, prmrC, "PRMR-d"}).Draw(rt, name)[:copies]
	}
	first, second, third := plan("first"), plan("second"), plan("third")
	c.AddCollection("c", 2, first, second)
	c.AddCollection("d", 2, first, second)
	c.Set("Plan/Collections/_system/d/distributeShardsLike", "c")
	c.AddCollection("e", 2, third)
	all := map[string][]string{"c/sc0": first, "c/sc1": second, "d/sd0": first, "d/sd1": second, "e/se0": third}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		servers := all[path]
		inSync := slices.DeleteFunc(slices.Clone(servers), func(server string) bool {
			return server != servers[0] && rapid.Bool().Draw(rt, server+" has missed a write to "+path)
		})
		c.Set("Current/Collections/_system/"+path+"/servers", list2any(inSync))
		c.Set("Current/Collections/_system/"+path+"/failoverCandidates", list2any(inSync))
		c.Write("_system/" + path)
	}
	return c
}
