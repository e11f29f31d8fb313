package arangodb

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/test/arangosim"
	"usher.sh/usher/test/httpfault"
)

func down(t *testing.T, b *bench) {
	t.Helper()
	for _, id := range b.sim.Members() {
		b.sim.Kill(id)
	}
}

func statelessCases() []numbered {
	return cases([]conformance{
		{name: "1 image-ID pod, API down", sim: plain, role: "image-id", member: "whatever", arrange: down},
		{name: "2 coordinator, agency down", sim: plain, role: "coordinator", member: "CRDN-a", arrange: down},
		{name: "1 image-ID pod, another one leaves", sim: plain, role: "image-id", member: "whatever", given: othersLeave},
		{name: "2 coordinator, others leave", sim: plain, role: "coordinator", member: "CRDN-a", given: othersLeave},
		{name: "4 syncmaster", sim: plain, role: "syncmaster", member: "x"},
		{name: "4 syncmaster, others leave", sim: plain, role: "syncmaster", member: "x", given: othersLeave},
		{name: "gateway", sim: plain, role: "gateway", member: "x", arrange: down},
		{name: "gateway, others leave", sim: plain, role: "gateway", member: "x", given: othersLeave},
		{name: "5 syncworker", sim: plain, role: "syncworker", member: "x", arrange: down},
		{name: "5 syncworker, others leave", sim: plain, role: "syncworker", member: "x", given: othersLeave},
	})
}

// othersLeave lets two more pods of the role be on their way.
func othersLeave(in *eviction.Input) {
	for _, name := range []string{"first", "second"} {
		pod := *in.Pod
		pod.Name, pod.UID, pod.Deletion = name, types.UID(name), in.Now
		in.Peers = append(in.Peers, &pod)
	}
}

// plain is a cluster whose three dbservers each lead a shard with one follower in sync.
func plain() *arangosim.Cluster {
	c := cluster(3)
	c.AddCollection("c", 2, []string{prmrA, prmrB}, []string{prmrB, prmrC}, []string{prmrC, prmrA})
	return c
}

// alike is a cluster with two collections of one shard that are distributed alike, where PRMR-b has the one and PRMR-c the other.
func alike() *arangosim.Cluster {
	c := cluster(3)
	c.AddCollection("c", 3, []string{prmrA, prmrB, prmrC})
	c.AddCollection("d", 3, []string{prmrA, prmrB, prmrC})
	c.Set("Plan/Collections/_system/d/distributeShardsLike", "c")
	c.Set("Current/Collections/_system/c/sc0/servers", []any{prmrA, prmrB})
	c.Set("Current/Collections/_system/d/sd0/servers", []any{prmrA, prmrC})
	return c
}

// shards is a cluster of three dbservers with these shards of one collection.
func shards(replication int, all ...[]string) func() *arangosim.Cluster {
	return func() *arangosim.Cluster {
		c := cluster(3)
		c.AddCollection("c", replication, all...)
		return c
	}
}

func current(shard string, servers ...string) func(*testing.T, *bench) {
	return func(_ *testing.T, b *bench) {
		b.sim.Set("Current/Collections/_system/c/"+shard+"/servers", list2any(servers))
	}
}

// both arranges one thing after the other.
func both(arrangements ...func(*testing.T, *bench)) func(*testing.T, *bench) {
	return func(t *testing.T, b *bench) {
		t.Helper()
		for _, arrange := range arrangements {
			arrange(t, b)
		}
	}
}

// now makes it so late for us.
func now(text string) func(*testing.T, *bench) {
	return func(t *testing.T, b *bench) {
		t.Helper()
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		b.now = at
	}
}

func ticks(n int) func(*testing.T, *bench) { return func(_ *testing.T, b *bench) { b.ticks(n) } }

// lost is for how long a dead server is away until the supervision calls it FAILED and has given its shards to others.
func lost(_ *testing.T, b *bench) { b.ticks(30) }

// resigned lets PRMR-a hand over what it can.
func resigned(t *testing.T, b *bench) {
	t.Helper()
	if _, err := b.sys.Prepare(t.Context(), b.step(ResignLeadership, prmrA)); err != nil {
		t.Fatal(err)
	}
	b.ticks(5)
	if got := b.evidence(prmrA).Members[prmrA]["resign"]; got != "Finished" {
		t.Fatalf("resignation is %q, want Finished", got)
	}
}

func list2any(all []string) []any {
	items := []any{}
	for _, one := range all {
		items = append(items, one)
	}
	return items
}

func set(pairs ...any) func(*testing.T, *bench) {
	return func(_ *testing.T, b *bench) {
		for i := 0; i < len(pairs); i += 2 {
			b.sim.Set(pairs[i].(string), pairs[i+1])
		}
	}
}

func job(kind, server string) map[string]any {
	return map[string]any{"type": kind, "server": server, "timeCreated": "2026-01-01T00:00:00Z"}
}

func failedJob(at string) map[string]any {
	failed := job("cleanOutServer", prmrA)
	failed["reason"], failed["timeFinished"] = "server PRMR-a cannot be cleaned out", at
	return failed
}

func dbserverEvictions() []numbered {
	elsewhere := shards(2, []string{prmrB, prmrC})
	led := shards(2, []string{prmrA, prmrB})
	follows := shards(2, []string{prmrB, prmrA})
	return cases([]conformance{
		{name: "8 cleaned out, in no shard", sim: elsewhere, arrange: set("Target/CleanedServers", []any{prmrA})},
		{name: "8 cleaned out, still in Current", sim: elsewhere, evict: []string{"NotDrained"}, arrange: both(set("Target/CleanedServers", []any{prmrA}), current("sc0", prmrB, prmrC, prmrA))},
		{name: "8 cleaned out, still leads in Current", sim: elsewhere, evict: []string{"LeadsShards", "NotDrained"}, arrange: both(set("Target/CleanedServers", []any{prmrA}), current("sc0", prmrA, prmrB))},
		{name: "8 cleaned out, still in Plan (issue 21487)", sim: follows, evict: []string{"CleanOutIncomplete", "NotDrained"}, arrange: set("Target/CleanedServers", []any{prmrA})},
		{name: "8 cleaned out, in Plan and not yet in Current", sim: follows, evict: []string{"CleanOutIncomplete", "NotDrained"}, arrange: both(set("Target/CleanedServers", []any{prmrA}), current("sc0", prmrB))},
		{name: "holds nothing, not cleaned out", sim: elsewhere, evict: []string{"NotDrained"}, needed: []string{"CleanOut"}},
		{name: "10 follower only, not cleaned", sim: follows, evict: []string{"NotDrained"}, needed: []string{"CleanOut"}},
		{name: "11 leads, follower in sync", sim: led, evict: []string{"LeadsShards", "NotDrained"}, needed: []string{"CleanOut"}},
		{
			name: "11 leads, asked to resign", sim: led, evict: []string{"LeadsShards", "NotDrained"}, needed: []string{"CleanOut"},
			arrange: set("Plan/Collections/_system/c/shards/sc0", []any{"_" + prmrA, prmrB}),
		},
		{name: "13 job ToDo", sim: led, evict: []string{"LeadsShards", "NotDrained"}, needed: []string{"CleanOut"}, arrange: set("Target/ToDo/7", job("cleanOutServer", prmrA))},
		{name: "13 job Pending", sim: led, evict: []string{"LeadsShards", "NotDrained"}, needed: []string{"CleanOut"}, arrange: set("Target/Pending/7", job("cleanOutServer", prmrA))},
		{name: "14 job Failed lately", sim: led, evict: []string{"CleanOutFailed", "LeadsShards", "NotDrained"}, arrange: set("Target/Failed/7", failedJob("2026-01-31T23:59:00Z"))},
		{name: "14 job Failed long ago", sim: led, evict: []string{"CleanOutFailed", "LeadsShards", "NotDrained"}, needed: []string{"CleanOut"}, arrange: set("Target/Failed/7", failedJob("2026-01-31T23:49:00Z"))},
		{name: "14 job Failed at an unknown time", sim: led, evict: []string{"CleanOutFailed", "LeadsShards", "NotDrained"}, arrange: set("Target/Failed/7", failedJob(""))},
		{
			name: "14 job of an older failure, new one runs", sim: led, evict: []string{"LeadsShards", "NotDrained"}, needed: []string{"CleanOut"},
			arrange: set("Target/Failed/7", failedJob("2026-01-31T23:59:00Z"), "Target/ToDo/8", job("cleanOutServer", prmrA)),
		},
		{
			name: "13 job Pending, a newer one has failed", sim: led, evict: []string{"LeadsShards", "NotDrained"}, needed: []string{"CleanOut"},
			arrange: set("Target/Pending/7", job("cleanOutServer", prmrA), "Target/Failed/8", failedJob("2026-01-31T23:59:00Z")),
		},
		{name: "job Finished, server taken back since", sim: led, evict: []string{"LeadsShards", "NotDrained"}, needed: []string{"CleanOut"}, arrange: set("Target/Finished/7", job("cleanOutServer", prmrA))},
		{name: "16 job unknown", sim: led, evict: []string{"LeadsShards", "NotDrained"}, needed: []string{"CleanOut"}, arrange: set("Target/Finished", nil, "Target/Failed", nil, "Target/ToDo", nil, "Target/Pending", nil)},
		{name: "17 killed before it is cleaned out", sim: led, evict: []string{"LeadsShards", "NotDrained", "NotGood"}, arrange: both(kill(prmrA), ticks(6))},
		{name: "lost for good, and others have taken over all that it had", sim: led, arrange: both(kill(prmrA), lost)},
		{name: "lost for good, a follower only", sim: follows, arrange: both(kill(prmrA), lost)},
		{name: "lost for good, others have taken over, and then the supervision is stopped", sim: led, arrange: both(kill(prmrA), lost, func(_ *testing.T, b *bench) { b.sim.SetMaintenance(true) })},
		{name: "lost for good, after a clean-out of it has failed", sim: led, arrange: both(set("Target/Failed/7", failedJob("2026-01-31T23:59:00Z")), kill(prmrA), lost)},
		{name: "lost for good with the only copy", sim: shards(1, []string{prmrA}), evict: []string{"LeadsShards", "NotDrained", "NotGood"}, arrange: both(kill(prmrA), lost)},
		{name: "lost for good, and the plan still counts on it", sim: shards(3, []string{prmrB, prmrA, prmrC}), evict: []string{"NoCapacity", "NotDrained", "NotGood"}, arrange: both(kill(prmrA), lost)},
		{name: "FAILED, in no plan, and a leader still reports it in sync", sim: elsewhere, evict: []string{"NotDrained", "NotGood"}, arrange: both(set("Supervision/Health/PRMR-a/Status", "FAILED"), current("sc0", prmrB, prmrC, prmrA))},
		{name: "BAD and in no shard: it may come back and get one", sim: elsewhere, evict: []string{"NotDrained", "NotGood"}, arrange: set("Supervision/Health/PRMR-a/Status", "BAD")},
		{name: "FAILED, and the agency says nothing of shards", sim: elsewhere, evict: []string{"FactMissing", "FactMissing", "FactMissing"}, arrange: set("Current/Collections", nil, "Supervision/Health/PRMR-a/Status", "FAILED")},
		{name: "the supervision still counts it among those to be cleaned", sim: led, evict: []string{"LeadsShards", "NotDrained"}, arrange: set("Target/ToBeCleanedServers", []any{prmrA})},
		{name: "19 never joined: unknown is unsafe", sim: led, member: "PRMR-z", evict: []string{"MemberUnknown"}},
		{name: "22 its node is cordoned: cleaned out all the same", sim: led, evict: []string{"LeadsShards", "NotDrained"}, needed: []string{"CleanOut"}, given: func(in *eviction.Input) {
			in.Node = &snapshot.Node{Name: "n1", Unschedulable: true}
		}},
		{name: "25 resignation finished, still leads alone", sim: shards(1, []string{prmrA}), evict: []string{"LeadsShards", "NotDrained"}, needed: []string{"CleanOut"}, arrange: resigned},
		{name: "26 supervision in maintenance", sim: led, evict: []string{"LeadsShards", "NotDrained", "SupervisionMaintenance"}, arrange: func(_ *testing.T, b *bench) { b.sim.SetMaintenance(true) }},
		{name: "28 three dbservers, three copies", sim: shards(3, []string{prmrA, prmrB, prmrC}), evict: []string{"LeadsShards", "NoCapacity", "NotDrained"}},
		{name: "28 a fourth is cleaned out itself", sim: shards(2, []string{prmrA, prmrB}), evict: []string{"LeadsShards", "NoCapacity", "NotDrained"}, arrange: set("Target/CleanedServers", []any{prmrC})},
		{name: "28 satellites need no room", sim: shards(0, []string{prmrB, prmrA, prmrC}), evict: []string{"NotDrained"}, needed: []string{"CleanOut"}},
		{name: "an agency without collections is not an empty cluster", sim: led, evict: []string{"FactMissing", "FactMissing", "FactMissing"}, arrange: set("Plan/Collections", []any{}, "Target/CleanedServers", []any{prmrA})},
		{name: "an agency without Current is not an empty cluster", sim: elsewhere, evict: []string{"FactMissing", "FactMissing", "FactMissing"}, arrange: set("Current/Collections", nil, "Target/CleanedServers", []any{prmrA})},
		{name: "agency without a majority", sim: elsewhere, evict: []string{"AgencyNotServing"}, arrange: both(set("Target/CleanedServers", []any{prmrA}), kill(agntB, agntC), ticks(1))},
		{name: "agency whose leader has just lost the others", sim: elsewhere, evict: []string{"AgencyNotServing"}, arrange: both(set("Target/CleanedServers", []any{prmrA}), kill(agntB, agntC))},
		{name: "no server answers", sim: elsewhere, evict: []string{"NoEvidence"}, arrange: down},
	}, dbserver, evictOnly)
}

func dbserverReplacements() []numbered {
	return cases([]conformance{
		{name: "29 leads nothing, follower out of sync", sim: shards(2, []string{prmrB, prmrA}), arrange: current("sc0", prmrB)},
		{name: "leads, follower in sync", sim: shards(2, []string{prmrA, prmrB})},
		{name: "31 leads, follower not in Current", sim: shards(2, []string{prmrA, prmrB}), arrange: current("sc0", prmrA), replace: []string{"NoFollowerInSync"}},
		{name: "32 one shard is fine, another has one copy", sim: shards(2, []string{prmrA, prmrB}, []string{prmrA}), replace: []string{"NoFollowerInSync"}},
		{name: "34 follower in sync and FAILED", sim: shards(2, []string{prmrA, prmrB}), arrange: set("Supervision/Health/PRMR-b/Status", "FAILED"), replace: []string{"NoFollowerInSync"}},
		{name: "34 follower in sync and BAD", sim: shards(2, []string{prmrA, prmrB}), arrange: set("Supervision/Health/PRMR-b/Status", "BAD"), replace: []string{"NoFollowerInSync"}},
		{name: "34 follower of unknown health", sim: shards(2, []string{prmrA, prmrB}), arrange: set("Supervision/Health/PRMR-b", nil), replace: []string{"NoFollowerInSync"}},
		{name: "35 not reported yet", sim: shards(2, []string{prmrA, prmrB}), arrange: set("Current/Collections/_system/c/sc0", nil, "Current/Collections/_system/d", map[string]any{}), replace: []string{"NoFollowerInSync"}},
		{name: "37 dead, in no shard", sim: shards(2, []string{prmrB, prmrC}), arrange: both(kill(prmrA), ticks(12))},
		{name: "38 dead, leads the only copy", sim: shards(1, []string{prmrA}), arrange: both(kill(prmrA), ticks(12)), replace: []string{"NoFollowerInSync"}},
		{name: "38 dead, led what another leads by now", sim: shards(2, []string{prmrA, prmrB}), arrange: both(kill(prmrA), ticks(12))},
		{name: "dead, still planned to lead, a follower could", sim: shards(2, []string{prmrA, prmrB}), arrange: set("Supervision/Health/PRMR-a/Status", "FAILED")},
		{name: "dead, follows a healthy leader", sim: shards(2, []string{prmrB, prmrA}), arrange: both(kill(prmrA), ticks(12))},
		{name: "41 cleaned out", sim: shards(2, []string{prmrB, prmrC}), arrange: set("Target/CleanedServers", []any{prmrA})},
		{name: "leads, and the follower in sync is not planned", sim: shards(2, []string{prmrA, prmrB}), arrange: current("sc0", prmrA, prmrC), replace: []string{"NoFollowerInSync"}},
		{name: "leads a satellite that is everywhere", sim: shards(0, []string{prmrA, prmrB, prmrC})},
		{name: "leads, the follower in sync is not among the candidates", sim: shards(2, []string{prmrA, prmrB}), arrange: set("Current/Collections/_system/c/sc0/failoverCandidates", []any{prmrA}), replace: []string{"NoFollowerInSync"}},
		{name: "leads, the follower is in maintenance", sim: shards(2, []string{prmrA, prmrB}), arrange: set("Current/MaintenanceDBServers/PRMR-b/Mode", "maintenance"), replace: []string{"NoFollowerInSync"}},
		{name: "leads, a job holds the follower", sim: shards(2, []string{prmrA, prmrB}), arrange: set("Supervision/DBServers/PRMR-b", "955430"), replace: []string{"NoFollowerInSync"}},
		{name: "leads two that are distributed alike, and each has another follower", sim: alike, replace: []string{"NoFollowerInSync"}},
		{name: "leads in Current only, not planned any more", sim: shards(2, []string{prmrB, prmrC}), arrange: current("sc0", prmrA), replace: []string{"NoFollowerInSync"}},
		{name: "the last good copy, of a leader that has failed", sim: shards(2, []string{prmrB, prmrA}), arrange: set("Supervision/Health/PRMR-b/Status", "FAILED"), replace: []string{"NoFollowerInSync"}},
		{name: "leader has resigned and no server leads", sim: shards(2, []string{prmrA, prmrB}), replace: []string{"NoFollowerInSync"}, arrange: both(set("Plan/Collections/_system/c/shards/sc0", []any{"_" + prmrB, prmrA}), current("sc0", "_"+prmrB, prmrA))},
		{name: "agency without Plan", sim: shards(2, []string{prmrA, prmrB}), arrange: set("Plan/Collections", nil), replace: []string{"FactMissing"}},
		{name: "an answer without a tree", sim: shards(2, []string{prmrB, prmrC}), replace: []string{"AgencyNotServing"}, arrange: func(_ *testing.T, b *bench) {
			b.sim.Inject(httpfault.Fault{Path: "/_api/agency/read", Status: 200, Body: "[{}]"})
		}},
	}, dbserver, replaceOnly)
}

func dbserver(c *conformance) {
	c.role = "dbserver"
	if c.member == "" {
		c.member = prmrA
	}
}

func evictOnly(c *conformance)   { c.evictOnly = true }
func replaceOnly(c *conformance) { c.replaceOnly = true }
