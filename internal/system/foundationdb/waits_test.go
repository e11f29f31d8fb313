package foundationdb_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/test/fdbsim"
)

// With the defaults of the API nothing is excluded within two minutes of a recovery, and nothing included within ten.
func TestWaitsAfterARecovery(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, v1alpha1.FoundationDBWaits{})
	sim.Recover()
	sim.Advance(119 * time.Second)
	if v := b.evict("p5"); needs(v, foundationdb.Exclude) || !strings.Contains(v.Blockers[0].Remedy, "less than 120 s have passed since the last recovery") {
		t.Errorf("%+v", v.Blockers)
	}
	if _, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{}); err == nil {
		t.Error("it is excluded too soon")
	}
	sim.Advance(time.Second)
	job, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{})
	if err != nil {
		t.Fatal(err)
	}
	sim.Advance(599 * time.Second)
	undone, early := b.undo("p5", foundationdb.Exclude, job)
	if early == nil || undone.Done || undone.Retry != time.Second {
		t.Errorf("it is included too soon: %+v", undone)
	}
	sim.Advance(time.Second)
	if undone, err := b.undo("p5", foundationdb.Exclude, job); err != nil || undone.Done || len(sim.Excluded()) != 0 {
		t.Errorf("it is not included: %+v %v", undone, err)
	}
	sim.Advance(time.Minute)
	if undone, err := b.undo("p5", foundationdb.Exclude, job); err != nil || !undone.Done || undone.Left != "" {
		t.Errorf("it was seen to be included: %+v %v", undone, err)
	}
	// The next exclusion of the same is another client's.
	b.byHand("exclude no_wait locality_instance_id:p5")
	sim.Advance(time.Minute)
	if again, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{}); err != nil || again != (eviction.Job{ID: job.ID, Found: true}) {
		t.Errorf("the exclusion of another client is %+v, %v", again, err)
	}
}

// Of the members of one role, one that is missed may be about to come back for five minutes; then it counts against what the redundancy allows for.
func TestWaitsForTheMissing(t *testing.T) {
	for _, test := range []struct {
		name    string
		copies  int
		role    string        // of the missing
		missing time.Duration // so long
		waits   string        // "": it is excluded
	}{
		{"double, just missed", 2, "foundationdb-storage", 4 * time.Minute, "counts as lost after 300 s"},
		{"double, lost", 2, "foundationdb-storage", 10 * time.Minute, "others are on their way out, as many as double redundancy allows at once"},
		{"triple, just missed", 3, "foundationdb-storage", 4 * time.Minute, "counts as lost after 300 s"},
		{"triple, lost", 3, "foundationdb-storage", 10 * time.Minute, ""},
		{"another role", 2, "foundationdb-log", 4 * time.Minute, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			sim := fdbsim.New(7, test.copies)
			b := newBench(t, simulated{sim}, 7, v1alpha1.FoundationDBWaits{})
			b.roles["p7"] = test.role
			sim.Kill("p7")
			sim.Advance(time.Minute)
			b.observe()
			b.pass(sim, test.missing)
			_, err := b.prepare("p6", foundationdb.Exclude, eviction.Job{})
			if (err == nil) != (test.waits == "") || err != nil && !strings.Contains(err.Error(), test.waits) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A member of a set that joins has had no data as long as no process of it was seen: however long its pod is not there, others are excluded beside it, and what FoundationDB
// counts is all that counts. One whose process was seen, or of which its set does not say that it joins, is missed.
func TestAMemberThatNeverHadAProcess(t *testing.T) {
	for _, test := range []struct {
		name     string
		missing  string // its id: p7 has a process, p8 never had one
		joins    bool
		lasts    time.Duration
		waits    string // "": others are excluded
		tolerant bool
	}{
		{"never had one", "p8", true, 0, "", true},
		{"never had one for long", "p8", true, 10 * time.Minute, "", true},
		{"had one", "p7", true, 4 * time.Minute, "p7 of the same role has had no process", true},
		{"had one, lost", "p7", true, 10 * time.Minute, "others are on their way out, as many as double redundancy allows at once", true},
		{"what it had is not known", "p8", false, 0, "p8 of the same role has had no process", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			sim := fdbsim.New(7, 2)
			b := newBench(t, simulated{sim}, 7, v1alpha1.FoundationDBWaits{})
			if test.missing == "p8" {
				b.ids = append(b.ids, "p8")
			}
			if test.joins {
				b.joining = []string{test.missing}
			}
			b.observe()
			if test.missing == "p7" {
				sim.Kill("p7")
				sim.Advance(time.Minute)
				b.observe()
			}
			b.pass(sim, test.lasts)
			if lacks := b.observe().System["notTolerant"]; (lacks == "") != test.tolerant {
				t.Errorf("the cluster does not stand the loss of a zone: %v", lacks)
			}
			_, err := b.prepare("p6", foundationdb.Exclude, eviction.Job{})
			if (err == nil) != (test.waits == "") || err != nil && !strings.Contains(err.Error(), test.waits) {
				t.Errorf("%v", err)
			}
		})
	}
}

// While a zone is under maintenance, what was never there is not concealed by it.
func TestAMemberThatNeverHadAProcessUnderMaintenance(t *testing.T) {
	sim := fdbsim.New(7, 2)
	b := newBench(t, simulated{sim}, 8, v1alpha1.FoundationDBWaits{})
	b.joining = []string{"p8"}
	b.byHand("maintenance on z4 3000")
	b.observe()
	b.pass(sim, 5*time.Minute)
	if lacks := b.observe().Members["p4"]["notTolerant"]; lacks != "" {
		t.Errorf("the pods of the zone stay: %v", lacks)
	}
}

// A member that has gone once it was emptied is not missed, for as long as its exclusion stands: others follow it before it is included. Neither is one that its set has
// removed, also by a process that has not seen it empty.
func TestTheEmptiedAreNotMissed(t *testing.T) {
	for _, test := range []struct {
		name     string
		emptied  bool
		included bool // by another client, while it is away
		removed  string
		waits    string
	}{
		{"emptied", true, false, "", ""},
		{"killed", false, false, "", "p6 of the same role has had no process"},
		{"emptied and included", true, true, "", "p6 of the same role has had no process"},
		{"removed", false, false, "p6", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			sim := fdbsim.New(7, 2)
			b := newBench(t, simulated{sim}, 7, waits(0, 0, 5*time.Minute))
			if test.emptied {
				if _, err := b.prepare("p6", foundationdb.Exclude, eviction.Job{}); err != nil {
					t.Fatal(err)
				}
				b.pass(sim, 2*time.Minute)
				if v := b.evict("p6"); v.Answer != eviction.Allowed {
					t.Fatalf("%+v", v)
				}
			}
			b.observe()
			sim.Kill("p6")
			sim.Advance(time.Minute)
			b.removed = test.removed
			b.observe()
			if test.included {
				b.byHand("include locality_instance_id:p6")
			}
			b.pass(sim, time.Minute)
			_, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{})
			if (err == nil) != (test.waits == "") || err != nil && !strings.Contains(err.Error(), test.waits) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A call whose answer is lost is known to be Usher's own by the process that has made it.
func TestAnExclusionWhoseAnswerWasLost(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	sim.LoseAnswers(true)
	if job, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{}); err == nil || job.ID != "" {
		t.Errorf("%+v %v", job, err)
	}
	sim.LoseAnswers(false)
	sim.Advance(time.Minute)
	if job, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{}); err != nil || job != (eviction.Job{ID: "locality_instance_id:p5"}) {
		t.Errorf("%+v %v", job, err)
	}
	// Another process does not know.
	other := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	if job, err := other.prepare("p5", foundationdb.Exclude, eviction.Job{}); err != nil || job != (eviction.Job{ID: "locality_instance_id:p5", Found: true}) {
		t.Errorf("%+v %v", job, err)
	}
}

// A member may go before its exclusion, whose answer was lost, was asked for again: the process that has made the call takes it back, another one says that it stays.
func TestAnExclusionWhoseAnswerWasLostIsTakenBack(t *testing.T) {
	for _, away := range []bool{false, true} {
		sim := fdbsim.New(5, 2)
		b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
		sim.LoseAnswers(true)
		if _, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{}); err == nil {
			t.Error("its answer was not lost")
		}
		sim.LoseAnswers(false)
		b.pass(sim, 5*time.Minute)
		if away {
			sim.Kill("p5")
			b.pass(sim, 5*time.Minute)
		}
		other := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
		undone, err := other.undo("p5", foundationdb.Exclude, eviction.Job{})
		if want := "include locality_instance_id:p5"; err != nil || !undone.Done || !strings.Contains(undone.Left, want) {
			t.Errorf("away %t: another process: %+v %v", away, undone, err)
		}
		b.until("it is included", func() bool {
			undone, err := b.undo("p5", foundationdb.Exclude, eviction.Job{})
			return err == nil && undone == eviction.Undone{Done: true}
		})
		if out, err := sim.Run(t.Context(), sim.ClusterFile(), "exclude"); err != nil || strings.Contains(out.Out, "p5") {
			t.Errorf("away %t: %s %v", away, out.Out, err)
		}
	}
}

// What was refused, another client may exclude later.
func TestAnExclusionThatWasRefused(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	sim.Refuse(true)
	if job, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{}); err == nil {
		t.Errorf("%+v", job)
	}
	sim.Refuse(false)
	b.byHand("exclude no_wait locality_instance_id:p5")
	sim.Advance(time.Minute)
	if job, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{}); err != nil || job != (eviction.Job{ID: "locality_instance_id:p5", Found: true}) {
		t.Errorf("the exclusion of another client is %+v, %v", job, err)
	}
}

// A class and a role of a policy are claims: what has data leaves as what has data.
func TestAStatelessMemberWithData(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	b.roles["p5"] = "foundationdb-stateless"
	if v := b.evict("p5"); len(v.Blockers) != 1 || v.Blockers[0].Reason != "HoldsData" {
		t.Errorf("%+v", v.Blockers)
	}
}

// The redundancy that the policy asks for is the least.
func TestLowerRedundancy(t *testing.T) {
	sim := fdbsim.New(7, 2)
	b := newBenchOf(t, simulated{sim}, 7, v1alpha1.FoundationDB{Redundancy: v1alpha1.RedundancyTriple})
	if why := b.observe().System["notTolerant"]; why != "the redundancy mode is double, and the policy asks for triple" {
		t.Errorf("%v", why)
	}
}

// fdbcli speaks the protocol of its own minor version only.
func TestAnotherVersionOfFDBCLI(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBenchOf(t, simulated{sim}, 5, v1alpha1.FoundationDB{Version: "7.1.57"})
	if said := b.observe().Error; !strings.HasPrefix(said, "the manager's fdbcli is of version 7.3.79, and the cluster runs 7.1.57") {
		t.Errorf("%q", said)
	}
}

// Roles do not tell that data is gone: for seconds after a recovery a process that is full of data has none.
func TestAMemberIsEmptyWhenTheListSaysSo(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	if _, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{}); err != nil {
		t.Fatal(err)
	}
	bare := false
	for range 120 {
		sim.Advance(time.Second)
		facts := b.observe().Members["p5"]
		roles, known := facts["roles"].([]string)
		bare = bare || known && len(roles) == 0 && sim.Draining("p5")
		if facts["empty"] == true && sim.Draining("p5") {
			t.Fatalf("it is empty, and has data: %v", facts)
		}
	}
	if !bare {
		t.Error("it was never without roles while it had data: the case is none")
	}
	sim.Mute(true)
	if facts := b.observe().Members["p5"]; facts["empty"] != false || facts["hasData"] != nil {
		t.Errorf("the list is not known, and it is empty: %v", facts)
	}
	if v := b.evict("p4"); needs(v, foundationdb.Exclude) {
		t.Error("another would be excluded while it is not known which exclusions are in progress")
	}
}

// As many zones as there are copies are left.
func TestZonesThatAreLeft(t *testing.T) {
	sim := fdbsim.New(3, 2)
	b := newBench(t, simulated{sim}, 3, waits(0, 0, time.Minute))
	if _, err := b.prepare("p3", foundationdb.Exclude, eviction.Job{}); err != nil {
		t.Fatal(err)
	}
	sim.Advance(5 * time.Minute)
	if _, err := b.prepare("p2", foundationdb.Exclude, eviction.Job{}); err == nil || !strings.Contains(err.Error(), "without it 1 zones may hold data, and 2 are needed") {
		t.Errorf("%v", err)
	}
}

// Zones of storage servers do not make up for those of log servers, nor the other way round.
func TestZonesThatAreLeftForLogs(t *testing.T) {
	for _, test := range []struct{ class, lacks string }{
		{"log", "without it 1 zones may hold log servers, and 2 are needed"}, {"transaction", "without it 1 zones may hold log servers, and 2 are needed"}, {"storage", ""},
	} {
		t.Run(test.class, func(t *testing.T) {
			sim := fdbsim.New(8, 2)
			for i := range 8 {
				p := sim.Find("p" + string(rune('1'+i)))
				p.Class = "storage"
				if i >= 5 {
					p.Class = test.class
				}
			}
			b := newBench(t, simulated{sim}, 8, v1alpha1.FoundationDBWaits{})
			b.roles["p6"], b.roles["p7"] = "foundationdb-log", "foundationdb-log"
			if _, err := b.prepare("p6", foundationdb.Exclude, eviction.Job{}); err != nil {
				t.Fatal(err)
			}
			sim.Advance(10 * time.Minute)
			_, err := b.prepare("p7", foundationdb.Exclude, eviction.Job{})
			if (err == nil) != (test.lacks == "") || err != nil && !strings.Contains(err.Error(), test.lacks) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A process that is not in the status for seconds runs, and has all that it had.
func TestAProcessThatIsOutOfSight(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	sim.Hide("p5", true)
	for range 30 {
		if v := b.evict("p5"); !slices.Equal(reasons(v), []string{"NotFaultTolerant", "NotEmpty"}) {
			t.Fatalf("%v: %+v", v.Answer, v.Blockers)
		}
		sim.Advance(time.Second)
	}
	sim.Hide("p5", false)
	if facts := b.observe().Members["p5"]; facts["missingSeconds"] != int64(0) {
		t.Errorf("it is missing still: %v", facts)
	}
}

// A status takes seconds while a process is freshly dead. One that does not come in time says nothing, and keeps everything.
func TestAStatusThatDoesNotComeInTime(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	sim.Kill("p5")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if evidence, err := b.system.Observe(ctx, nil); err == nil || !strings.HasPrefix(err.Error(), "reading the status: fdbcli has not ended") {
		t.Errorf("%+v %v", evidence, err)
	}
	sim.Advance(30 * time.Second)
	if evidence, err := b.system.Observe(ctx, nil); err != nil || evidence.System["problem"] != "" {
		t.Errorf("%+v %v", evidence, err)
	}
}

// A member of two processes does its work while both are in the status. One whose set does not say how many it is to have does with any.
func TestAMemberThatLacksAProcess(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	sim.Add("p5", "z5") // at 10.0.0.16
	sim.Advance(10 * time.Minute)
	works := func(when string, processes int, want bool) {
		t.Helper()
		b.processes = processes
		facts := b.observe().Members["p5"]
		if does, known := foundationdb.Kind().Reports(facts); !known || does != want {
			t.Errorf("%s, of %d: it does its work: %t, known: %t: %v", when, processes, does, known, facts)
		}
	}
	works("both are there", 2, true)
	works("both are there", 0, true)
	works("both are there", 3, false)
	sim.Kill("10.0.0.16:4500")
	sim.Advance(time.Minute)
	works("one is there", 2, false)
	works("one is there", 1, true)
	works("one is there", 0, true)
	sim.Kill("p5")
	sim.Advance(time.Minute)
	works("none is there", 1, false)
	works("none is there", 0, false)
}

// Several processes of one id are one member, which is empty when all of them are.
func TestAMemberOfTwoProcesses(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	sim.Add("p5", "z5")
	sim.Advance(10 * time.Minute) // it gets data
	if n := len(b.observe().Members["p5"]["addresses"].([]string)); n != 2 {
		t.Fatalf("it has %d processes", n)
	}
	if _, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{}); err != nil {
		t.Fatal(err)
	}
	one := false
	for range 300 {
		sim.Advance(time.Second)
		left := sim.DrainingProcesses("p5")
		one = one || left == 1
		if v := b.evict("p5"); v.Answer == eviction.Allowed && left > 0 {
			t.Fatalf("it may leave while %d of its processes have data", left)
		}
	}
	if v := b.evict("p5"); v.Answer != eviction.Allowed || !one {
		t.Errorf("%v %+v; one of its processes was empty before the other: %t", v.Answer, v.Blockers, one)
	}
}

// What a drain has excluded stays so while the member's MemberSet empties it: else each would take back what the other does, for ever.
func TestWhatASetEmptiesIsNotIncluded(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	sim.Advance(10 * time.Minute)
	b.observe()
	job, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{})
	if err != nil {
		t.Fatal(err)
	}
	sim.Advance(time.Minute)
	b.emptied = "p5"
	b.observe()
	if undone, err := b.undo("p5", foundationdb.Exclude, job); err != nil || !undone.Done || undone.Left != "" || len(sim.Excluded()) != 1 {
		t.Errorf("while it is emptied: %+v %v; exclusions: %v", undone, err, sim.Excluded())
	}
	b.emptied = ""
	b.observe()
	if _, err := b.undo("p5", foundationdb.Exclude, job); err != nil || len(sim.Excluded()) != 0 {
		t.Errorf("once it is not: %v; exclusions: %v", err, sim.Excluded())
	}
}

// What a drain has excluded by an address, beside a process of a version that knows nothing else, is no exclusion that the set takes back: it would outlive the member, and
// hold for the next pod there.
func TestAnAddressIsIncludedWhileASetEmpties(t *testing.T) {
	sim := fdbsim.New(5, 2)
	sim.Find("p1").Version = "7.3.25"
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	sim.Advance(10 * time.Minute)
	b.observe()
	job, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{})
	if err != nil || job.ID != sim.Find("p5").Address {
		t.Fatal(job, err)
	}
	sim.Advance(time.Minute)
	b.emptied = "p5"
	b.observe()
	b.byHand("exclude no_wait locality_instance_id:p5")
	sim.Advance(time.Minute)
	if _, err := b.undo("p5", foundationdb.Exclude, job); err != nil {
		t.Fatal(err)
	}
	sim.Advance(time.Minute)
	undone, err := b.undo("p5", foundationdb.Exclude, job)
	if left := sim.Excluded(); err != nil || !undone.Done || !slices.Equal(left, []string{"locality_instance_id:p5"}) {
		t.Errorf("%+v %v; exclusions: %v", undone, err, left)
	}
}
