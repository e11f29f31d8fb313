package etcd_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/test/etcdsim"
)

var faults = []etcdsim.Fault{
	etcdsim.Healthy, etcdsim.Refuses, etcdsim.Silent, etcdsim.Errs, etcdsim.Stale, etcdsim.Mistaken, etcdsim.Stranger, etcdsim.Deaf,
}

// history drives a cluster at random.
type history struct {
	sim    *etcdsim.Cluster
	names  []string // of members that are in, learners included
	writes int
}

func (h *history) member(t *rapid.T) string { return rapid.SampledFrom(h.names).Draw(t, "member") }

func (h *history) moves() map[string]func(*rapid.T) {
	on := func(f func(string)) func(*rapid.T) { return func(t *rapid.T) { f(h.member(t)) } }
	tick := func(*rapid.T) { h.sim.Tick() }
	return map[string]func(*rapid.T){
		"tick": tick, "tick more": tick, "tick again": tick,
		"kill":  on(h.sim.Kill),
		"start": on(h.sim.Start),
		"hide":  on(h.sim.Hide),
		"heal":  func(*rapid.T) { h.sim.Heal() },
		"slow":  func(t *rapid.T) { h.sim.Slow(h.member(t), rapid.IntRange(0, 2).Draw(t, "entries")) },
		"cut":   func(t *rapid.T) { h.sim.Island(rapid.IntRange(0, 2).Draw(t, "island"), h.member(t)) },
		"write": func(t *rapid.T) {
			for range rapid.IntRange(1, 15).Draw(t, "values") {
				h.writes++
				h.sim.Write(fmt.Sprint("w", h.writes))
			}
		},
		"add": func(t *rapid.T) {
			name := fmt.Sprint("n", len(h.names))
			if len(h.names) < 6 && h.sim.Add(name, rapid.Bool().Draw(t, "learner")) {
				h.names = append(h.names, name)
			}
		},
		"promote": on(func(name string) { h.sim.GiveVote(name) }),
		"misbehave": func(t *rapid.T) {
			h.sim.Misbehave(etcdsim.URL(h.member(t)), rapid.SampledFrom(faults).Draw(t, "fault"))
		},
	}
}

// heal ends all that is wrong, but for disks that are lost.
func (h *history) heal() {
	h.sim.Heal()
	for _, name := range h.names {
		h.sim.Start(name)
		h.sim.Slow(name, 0)
		h.sim.Misbehave(etcdsim.URL(name), etcdsim.Healthy)
	}
	h.sim.Settle(5)
}

func newHistory(t *rapid.T) *history {
	names := []string{"a", "b", "c", "d", "e"}[:rapid.SampledFrom([]int{1, 2, 3, 3, 3, 5}).Draw(t, "members")]
	return &history{sim: etcdsim.New(names...), names: slices.Clone(names)}
}

// Whatever happens to the cluster and whatever its members say: a member that may go is none whose leave would stop it. Nor
// does it lead, unless a quorum says so of another.
func TestNoMemberMayGoThatIsNeeded(t *testing.T) {
	policy := compiled(t)
	allowed, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		h := newHistory(rt)
		moves := h.moves()
		j := &judge{policy: policy, system: h.sim.Open(maxLag, patience)}
		moves[""] = func(rt *rapid.T) {
			evidence := j.observe(t)
			for _, name := range h.names {
				if eviction.Judge(j.input(evidence, name)).Answer == eviction.Allowed {
					allowed++
					mustBeSafe(rt, h.sim, name)
				} else {
					refused++
				}
				if lose, why := h.sim.WouldLoseWithDisk(name); lose && eviction.JudgeReplace(j.input(evidence, name)).Answer == eviction.Allowed {
					rt.Fatalf("%s may be replaced: %s", name, why)
				}
			}
		}
		rt.Repeat(moves)
	})
	if allowed == 0 || refused == 0 {
		t.Errorf("the histories show nothing: %d allowed, %d refused", allowed, refused)
	}
}

func mustBeSafe(t *rapid.T, sim *etcdsim.Cluster, name string) {
	if lose, why := sim.WouldLose(name); lose {
		t.Fatalf("%s may go: %s", name, why)
	}
	if sim.Leader() == name && !sim.Deceives() {
		t.Fatalf("%s may go and leads", name)
	}
}

// Once everything is well again, every member of a cluster that can spare one may go, the leader after its preparation.
func TestEveryMemberMayGoInTheEnd(t *testing.T) {
	policy := compiled(t)
	rapid.Check(t, func(rt *rapid.T) {
		h := newHistory(rt)
		rt.Repeat(h.moves())
		h.heal()
		j := &judge{policy: policy, system: h.sim.Open(maxLag, patience)}
		for _, name := range h.names {
			v := j.evict(t, name)
			for _, step := range v.Needed {
				if _, err := j.system.Prepare(t.Context(), step); err != nil {
					rt.Fatal(err)
				}
				h.sim.Settle(2)
				v = j.evict(t, name)
			}
			if slices.Equal(reasons(v), []string{eviction.MemberUnknown}) {
				continue // the leader ended before the others observed its election
			}
			if lose, _ := h.sim.WouldLose(name); v.Answer != eviction.Allowed && !lose {
				rt.Fatalf("%s may not go and could: %+v", name, v.Blockers)
			}
		}
		if lost := h.sim.Lost(); len(lost) > 0 {
			rt.Fatalf("lost without a disk being lost: %v", lost)
		}
	})
}
