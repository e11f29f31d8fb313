package foundationdb_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/test/fdbsim"
)

// history drives a cluster at random: processes end and come back, people exclude and include what they like, zones come under maintenance, and
// members are prepared and taken back.
type history struct {
	sim  *fdbsim.Cluster
	b    *bench
	jobs map[string]eviction.Job
}

func newHistory(t *testing.T, rt *rapid.T) *history {
	t.Helper()
	sim := fdbsim.New(rapid.IntRange(3, 7).Draw(rt, "processes"), rapid.IntRange(1, 3).Draw(rt, "copies"))
	if rapid.Bool().Draw(rt, "classes") {
		sim.Classes(slices.Repeat([]string{"storage", "unset"}, 3)[:rapid.IntRange(0, 3).Draw(rt, "classed")]...)
	}
	b := newBench(t, simulated{sim}, sim.Size(), waits(
		time.Duration(rapid.SampledFrom([]int{0, 5, 120}).Draw(rt, "excludeAfter"))*time.Second,
		time.Duration(rapid.SampledFrom([]int{0, 10}).Draw(rt, "includeAfter"))*time.Second,
		time.Duration(rapid.SampledFrom([]int{120, 300}).Draw(rt, "missing"))*time.Second))
	return &history{sim: sim, b: b, jobs: map[string]eviction.Job{}}
}

func (h *history) moves(t *testing.T) map[string]func(*rapid.T) {
	t.Helper()
	member := func(rt *rapid.T) string { return rapid.SampledFrom(h.b.ids).Draw(rt, "member") }
	on := func(f func(string)) func(*rapid.T) { return func(rt *rapid.T) { f(member(rt)) } }
	pass := func(rt *rapid.T) {
		h.sim.Advance(time.Duration(rapid.SampledFrom([]int{1, 2, 5, 15, 60, 200}).Draw(rt, "seconds")) * time.Second)
	}
	prepare := func(id string) {
		if job, err := h.b.prepare(id, foundationdb.Exclude, h.jobs[id]); err == nil {
			h.jobs[id] = job
		}
	}
	return map[string]func(*rapid.T){
		"time passes": pass, "more time passes": pass, "and more": pass,
		"kill":    on(h.sim.Kill),
		"start":   on(h.sim.Start),
		"recover": func(*rapid.T) { h.sim.Recover() },
		"prepare": on(prepare),
		"prepare in peace": on(func(id string) {
			h.sim.Advance(3 * time.Minute)
			prepare(id)
			h.sim.Advance(time.Minute)
		}),
		"undo": on(func(id string) {
			if undone, err := h.b.undo(id, foundationdb.Exclude, h.jobs[id]); err == nil && undone.Done {
				delete(h.jobs, id)
			}
		}),
		"move coordinators": on(func(id string) { _, _ = h.b.prepare(id, foundationdb.MoveCoordinators, eviction.Job{}) }),
		"by hand": func(rt *rapid.T) {
			command := rapid.SampledFrom([]string{"exclude no_wait locality_instance_id:", "include locality_instance_id:", "exclude no_wait locality_zoneid:z9 locality_instance_id:"}).Draw(rt, "command")
			_ = h.b.site.byHand(t, command+member(rt))
		},
		"maintenance": func(rt *rapid.T) {
			_ = h.b.site.byHand(t, rapid.SampledFrom([]string{"maintenance on z1 400", "maintenance on z2 60", "maintenance off"}).Draw(rt, "command"))
		},
	}
}

// Whatever happens to the cluster: a member that may go, and goes with its disk, takes no copy of anything with it that is to be there.
func TestNoMemberGoesThatHasData(t *testing.T) {
	played, allowed, refused := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		played++
		h := newHistory(t, rt)
		moves := h.moves(t)
		moves[""] = func(rt *rapid.T) {
			evidence := h.b.observe()
			if n := h.sim.Thin(); n > 0 && evidence.System["notTolerant"] == "" {
				rt.Fatalf("%d shards have too few copies that are up, and nothing tells: %v", n, evidence.System)
			}
			for _, id := range h.b.ids {
				if evidence.Members[id]["empty"] == true && h.sim.Draining(id) {
					rt.Fatalf("%s is empty, and has data: %v", id, evidence.Members[id])
				}
				if eviction.Judge(h.b.input(evidence, id)).Answer != eviction.Allowed {
					refused++
					continue
				}
				allowed++
				if lost := h.sim.WouldLose(id); lost != "" {
					rt.Fatalf("%s may go: %s: %v %v", id, lost, evidence.System, evidence.Members[id])
				}
			}
		}
		rt.Repeat(moves)
		if n := h.sim.Lost(); n > 0 {
			rt.Fatalf("%d shards are lost", n)
		}
	})
	if played >= 100 && (allowed == 0 || refused == 0) { // of 20, one in some sixty times, none has a member that may go
		t.Errorf("the histories show nothing: %d allowed, %d refused", allowed, refused)
	}
}

// Once everything is well again, every member may go in the end, if there is another for what it has.
func TestEveryMemberMayGoInTheEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHistory(t, rt)
		rt.Repeat(h.moves(t))
		for _, id := range h.b.ids {
			h.sim.Start(id)
		}
		h.sim.Advance(time.Minute)
		h.b.byHand("maintenance off")
		h.b.byHand("include all")
		h.sim.Advance(20 * time.Minute)
		id := rapid.SampledFrom(h.b.ids).Draw(rt, "who goes")
		for range 1000 {
			v := h.b.evict(id)
			if v.Answer == eviction.Allowed {
				return
			}
			for _, step := range v.Needed[:min(1, len(v.Needed))] {
				_, _ = h.b.prepare(id, step.Name, eviction.Job{})
			}
			h.sim.Advance(5 * time.Second)
		}
		if h.sim.Spare() {
			rt.Fatalf("%s may not go: %s", id, h.b.verdicts())
		}
	})
}
