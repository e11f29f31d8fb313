package etcdsim_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"usher.sh/usher/internal/system/etcd"
	"usher.sh/usher/test/etcdsim"
)

func TestElection(t *testing.T) {
	sim := etcdsim.New("a", "b", "c")
	old := sim.Leader()
	if !sim.Write("before") {
		t.Fatal("no member takes a write")
	}
	sim.Tick()
	if !sim.Acknowledged("before") {
		t.Error("a write is not acknowledged")
	}
	sim.Kill(old)
	sim.Tick()
	if sim.Serving() {
		t.Error("a new leader is there at once")
	}
	sim.Tick()
	if now := sim.Leader(); now == "" || now == old {
		t.Errorf("%q leads after %s", now, old)
	}
	if lost := sim.Lost(); len(lost) > 0 {
		t.Errorf("lost: %v", lost)
	}
	sim.Start(old)
	sim.Settle(2)
	if lose, why := sim.WouldLose(old); lose {
		t.Errorf("all are back: %s", why)
	}
}

func TestNoQuorumTakesNoWrite(t *testing.T) {
	sim := etcdsim.New("a", "b", "c")
	sim.Island(1, "a")
	sim.Island(2, "b")
	sim.Settle(3)
	if sim.Serving() || sim.Write("w") {
		t.Error("three islands, and a member serves")
	}
	for _, name := range []string{"a", "b", "c"} {
		if lose, _ := sim.WouldLose(name); !lose {
			t.Errorf("%s would be no loss", name)
		}
	}
}

// A write that two of three hold is lost with their disks, and said to be.
func TestLostDisks(t *testing.T) {
	sim := etcdsim.New("a", "b", "c")
	l := sim.Leader()
	last := map[string]string{"a": "c", "b": "c", "c": "b"}[l]
	sim.Island(1, last)
	sim.Tick()
	sim.Write("w")
	sim.Settle(2)
	if !sim.Acknowledged("w") {
		t.Fatal("not acknowledged")
	}
	for _, name := range []string{"a", "b", "c"} {
		if name != last {
			sim.Wipe(name)
			sim.Start(name)
		}
	}
	if lost := sim.Lost(); len(lost) != 1 {
		t.Errorf("lost: %v", lost)
	}
	if sim.Serving() {
		t.Error("members serve without their disks")
	}
}

func TestAlarmsStopWrites(t *testing.T) {
	sim := etcdsim.New("a", "b", "c")
	sim.Raise("a", etcd.NoSpace)
	if sim.Write("w") {
		t.Error("a full cluster takes a write")
	}
	sim.Disarm()
	if !sim.Write("w") {
		t.Error("the alarm is over, and no write is taken")
	}
}

// A member that was away knows fewer voters than there are: they do not elect by that.
func TestElectionByTheCandidatesConfiguration(t *testing.T) {
	sim := etcdsim.New("a")
	sim.Add("away", true)
	sim.Island(1, "away")
	sim.Kill("away")
	for _, name := range []string{"b", "c"} {
		sim.Tick()
		sim.Add(name, false)
	}
	sim.Tick()
	sim.Island(1, "a")
	sim.Settle(2)
	sim.Start("away")
	sim.Write("w")
	sim.Tick()
	if !sim.Acknowledged("w") {
		t.Fatal("b and c are a quorum and acknowledge nothing")
	}
	sim.Heal()
	sim.Settle(5)
	if lost := sim.Lost(); len(lost) > 0 {
		t.Errorf("lost: %v", lost)
	}
}

// Raft's promise, whatever happens short of lost disks: nothing that was acknowledged is lost, and a cluster whose members all run and reach
// each other acknowledges again.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}[:rapid.IntRange(1, 5).Draw(t, "members")]
		sim := etcdsim.New(names...)
		names = slices.Clone(names)
		member := func(t *rapid.T) string { return rapid.SampledFrom(names).Draw(t, "member") }
		writes := 0
		t.Repeat(map[string]func(*rapid.T){
			"tick":  func(*rapid.T) { sim.Tick() },
			"kill":  func(t *rapid.T) { sim.Kill(member(t)) },
			"start": func(t *rapid.T) { sim.Start(member(t)) },
			"cut":   func(t *rapid.T) { sim.Island(rapid.IntRange(0, 2).Draw(t, "island"), member(t)) },
			"heal":  func(*rapid.T) { sim.Heal() },
			"slow":  func(t *rapid.T) { sim.Slow(member(t), rapid.IntRange(0, 2).Draw(t, "entries")) },
			"add": func(t *rapid.T) {
				if name := fmt.Sprint("n", len(names)); len(names) < 7 && sim.Add(name, rapid.Bool().Draw(t, "learner")) {
					names = append(names, name)
				}
			},
			"promote": func(t *rapid.T) { sim.GiveVote(member(t)) },
			"remove":  func(t *rapid.T) { sim.TakeOut(member(t)) },
			"write": func(*rapid.T) {
				writes++
				sim.Write(fmt.Sprint("w", writes))
			},
			"": func(t *rapid.T) {
				if lost := sim.Lost(); len(lost) > 0 {
					t.Fatalf("lost: %v", lost)
				}
			},
		})
		sim.Heal()
		for _, name := range names {
			sim.Start(name)
			sim.Slow(name, 0)
		}
		sim.Settle(10)
		sim.Write("last")
		sim.Settle(2)
		if lost := sim.Lost(); len(lost) > 0 || !sim.Acknowledged("last") {
			t.Fatalf("healed: lost %v, acknowledges %t", lost, sim.Acknowledged("last"))
		}
	})
}

func TestAQuorumAcknowledges(t *testing.T) {
	sim := etcdsim.New("a", "b", "c")
	for _, name := range []string{"a", "b", "c"} {
		sim.Slow(name, 1)
	}
	for i := range 5 {
		sim.Write(fmt.Sprint("w", i))
	}
	sim.Tick()
	if !sim.Acknowledged("w0") || sim.Acknowledged("w4") {
		t.Errorf("a quorum holds w0 and no more; acknowledged: w0 %v, w4 %v", sim.Acknowledged("w0"), sim.Acknowledged("w4"))
	}
	sim.Settle(5)
	if !sim.Acknowledged("w4") {
		t.Error("all members hold w4, and it is not acknowledged")
	}
}
