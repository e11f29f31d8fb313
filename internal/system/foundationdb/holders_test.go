package foundationdb_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/test/fdbreal"
	"usher.sh/usher/test/fdbsim"
)

// onStorage runs a case against clusters of which p1 to p5 do nothing but storage, beside log servers and, where it is real, processes without data.
func onStorage(t *testing.T, test func(*testing.T, site)) {
	t.Helper()
	classes := strings.Fields("storage storage storage storage storage log log log stateless stateless")
	t.Run("simulated", func(t *testing.T) {
		sim := fdbsim.New(len(classes), 2)
		sim.Classes(classes...)
		sim.Advance(10 * time.Minute)
		test(t, simulated{sim})
	})
	t.Run("real", func(t *testing.T) {
		cluster := fdbreal.Start(t, len(classes), "double ssd", classes...)
		cluster.Write("before", 200)
		test(t, realSite{cluster})
	})
}

// For a minute after the end of a process that does nothing but storage the status says that nothing is missing, and as many zones may fail as ever. Nothing
// but its absence tells.
func TestALostCopyCountsAtOnce(t *testing.T) {
	onStorage(t, func(t *testing.T, s site) {
		long(t, s)
		b := newBench(t, s, 5, v1alpha1.FoundationDBWaits{})
		b.settled()
		s.kill("p5")
		killed, concealed, revealed := s.now(), false, false
		b.until("the copies are made anew", func() bool {
			evidence := b.observe()
			if evidence.Error != "" || evidence.System["problem"] != "" || evidence.Members["p5"]["reports"] != false {
				return false
			}
			lacks, whole := evidence.System["notTolerant"], evidence.System["minReplicas"] == int64(2) && evidence.System["zoneFailures"] == int64(1)
			// A real cluster was seen to find out after 60 to 70 s.
			if lacks == "" && !revealed && s.now().Sub(killed) < 90*time.Second {
				t.Fatalf("it stands the loss of a zone, and p5 is missed: %v", evidence.System)
			}
			concealed, revealed = concealed || whole && !revealed, revealed || !whole
			return lacks == ""
		})
		if !concealed {
			t.Error("the status was never whole while a copy was lost: the case is none")
		}
		if sim, ok := s.(simulated); ok && sim.Thin() > 0 {
			t.Errorf("%d shards lack copies, and it stands the loss of a zone", sim.Thin())
		}
	})
}

// What has gone before its manager has begun counts as well, where it is a member's, and not what was empty.
func TestWhatCountsAsGone(t *testing.T) {
	says := func(b *bench) string {
		b.t.Helper()
		lacks, _ := b.observe().System["notTolerant"].(string)
		return lacks
	}
	sim := fdbsim.New(8, 2)
	sim.Classes(strings.Fields("storage storage storage storage storage log log log")...)
	sim.Advance(10 * time.Minute)
	sim.Kill("p5")
	sim.Advance(20 * time.Second)
	b := newBench(t, simulated{sim}, 5, v1alpha1.FoundationDBWaits{})
	if lacks := says(b); !strings.HasPrefix(lacks, "no processes in the status any more: p5;") {
		t.Errorf("a manager that has just begun: %q", lacks)
	}
	b.pass(sim, 2*time.Minute)
	if lacks := says(b); lacks != "" {
		t.Errorf("FoundationDB has counted it: %q", lacks)
	}
	sim.Start("p5")
	b.pass(sim, 10*time.Minute)
	b.byHand("exclude no_wait locality_instance_id:p4")
	b.until("p4 is empty", func() bool { return b.observe().Members["p4"]["empty"] == true })
	sim.Kill("p4")
	sim.Advance(20 * time.Second)
	if lacks := says(b); lacks != "" {
		t.Errorf("one that was empty is gone: %q", lacks)
	}
	b.byHand("maintenance on z5 1000")
	sim.Kill("p5")
	b.pass(sim, 5*time.Minute)
	if lacks := says(b); lacks == "" || sim.Thin() == 0 {
		t.Errorf("under maintenance: %q while %d shards lack copies", lacks, sim.Thin())
	}
	b.byHand("maintenance off")
	for range 50 {
		sim.Advance(time.Second)
		if lacks := says(b); !strings.HasPrefix(lacks, "no processes in the status any more: p5;") || sim.Thin() == 0 {
			t.Fatalf("moments after a maintenance: %q while %d shards lack copies", lacks, sim.Thin())
		}
	}
}

// One that was empty is included by a person, is given data and goes, all between two looks.
func TestWhatWasEmptyCountsOnceItsExclusionIsGone(t *testing.T) {
	sim := fdbsim.New(8, 2)
	sim.Classes(strings.Fields("storage storage storage storage storage log log log")...)
	sim.Advance(10 * time.Minute)
	b := newBench(t, simulated{sim}, 5, v1alpha1.FoundationDBWaits{})
	b.byHand("exclude no_wait locality_instance_id:p4")
	b.until("p4 is empty", func() bool { return b.observe().Members["p4"]["empty"] == true })
	b.byHand("include locality_instance_id:p4")
	sim.Advance(time.Minute)
	sim.Kill("p4")
	sim.Advance(20 * time.Second)
	if lacks, _ := b.observe().System["notTolerant"].(string); sim.Thin() == 0 || !strings.HasPrefix(lacks, "no processes in the status any more: p4;") {
		t.Errorf("%d shards lack copies, and it says %q", sim.Thin(), lacks)
	}
}

// A maintenance that begins and ends between two looks conceals again what is missing.
func TestAMaintenanceBetweenTwoLooks(t *testing.T) {
	sim := fdbsim.New(3, 1)
	b := newBench(t, simulated{sim}, 3, v1alpha1.FoundationDBWaits{})
	b.observe()
	sim.Kill("p2")
	b.pass(sim, 5*time.Minute)
	b.observe()
	b.byHand("maintenance on z2 30")
	sim.Advance(40 * time.Second)
	if lacks, _ := b.observe().System["notTolerant"].(string); sim.Thin() == 0 || !strings.HasPrefix(lacks, "no processes in the status any more: p2;") {
		t.Errorf("%d shards lack copies, and it says %q", sim.Thin(), lacks)
	}
}

// A process comes back and goes again while the status does not say how the data is. The looks meanwhile, close to each other, have seen it neither come nor go, and
// what it has is concealed anew.
func TestAProcessThatIsBackForAMomentWhileTheDataIsNotKnown(t *testing.T) {
	sim := fdbsim.New(4, 1)
	b := newBench(t, simulated{sim}, 4, v1alpha1.FoundationDBWaits{})
	b.observe()
	sim.Kill("p4")
	b.pass(sim, 5*time.Minute)
	sim.Start("p4")
	sim.Kill("p4")
	blind, concealed := false, false
	for range 300 {
		system := b.observe().System
		blind = blind || system["problem"] == "" && system["minReplicas"] == nil
		if sim.Thin() == 0 {
			t.Fatal("nothing is missing: the case is none")
		}
		if system["notTolerant"] == "" {
			t.Fatalf("%d shards lack copies: %v", sim.Thin(), system)
		}
		concealed = concealed || system["minReplicas"] == int64(1)
		sim.Advance(time.Second)
	}
	if !blind || !concealed {
		t.Errorf("the status was without the data: %t; it concealed what is missing: %t: the case is none", blind, concealed)
	}
}

// While a zone is under maintenance FoundationDB finds out what is lost of others as ever, and ends the maintenance then. So their members do not count as gone
// for as long as it lasts: a manager that sees only then that they are would refuse what another one has begun the maintenance for.
func TestMaintenanceOfAnotherZoneConcealsNothing(t *testing.T) {
	onStorage(t, func(t *testing.T, s site) {
		long(t, s)
		b := newBench(t, s, 5, v1alpha1.FoundationDBWaits{})
		b.settled()
		b.byHand("maintenance on z1 1000")
		s.kill("p5")
		killed, revealed := s.now(), false
		b.until("the copies are made anew", func() bool {
			evidence := b.observe()
			if evidence.Error != "" || evidence.System["problem"] != "" || evidence.Members["p5"]["reports"] != false {
				return false
			}
			revealed = revealed || evidence.System["minReplicas"] == int64(1)
			lacks := evidence.Members["p1"]["notTolerant"] // which is of the zone
			if lacks == "" && !revealed {
				t.Fatalf("after %s p5 is not missed, of which the status says nothing yet: %v", s.now().Sub(killed), evidence.System)
			}
			return lacks == ""
		})
		if !revealed {
			t.Error("the status was whole all the time: FoundationDB conceals what is lost of another zone")
		}
		if zone := b.observe().System["maintenanceZone"]; zone != "" {
			t.Errorf("zone %v is still under maintenance", zone)
		}
		if sim, ok := s.(simulated); ok && sim.Thin() > 0 {
			t.Errorf("%d shards lack copies", sim.Thin())
		}
	})
}

// A manager that has begun after a process was lost does not know its zone. Beside a zone under maintenance that counts as ever: it is in another one, or it may be
// missing. What a maintenance before has concealed, which may have been of its zone, is so for a while after its end.
func TestWhatIsGoneOfAnUnknownZoneBesideAMaintenance(t *testing.T) {
	for name, test := range map[string]struct {
		zone    string // of p5, which is lost
		before  string // a zone that is under maintenance when the manager begins, and for a while; "": none
		refused time.Duration
	}{
		"of another zone":                         {zone: "z5", refused: 2 * time.Minute},
		"of the zone":                             {zone: "z1", refused: 2 * time.Minute},
		"of one that was under maintenance":       {zone: "z5", before: "z5", refused: 2 * time.Minute},
		"of another, and its loss has ended that": {zone: "z5", before: "z4"},
	} {
		t.Run(name, func(t *testing.T) {
			sim := fdbsim.New(8, 2)
			sim.Classes(strings.Fields("storage storage storage storage storage log log log")...)
			sim.Find("p5").Zone = test.zone
			sim.Advance(10 * time.Minute)
			b := newBench(t, simulated{sim}, 8, v1alpha1.FoundationDBWaits{})
			if test.before != "" {
				b.byHand("maintenance on " + test.before + " 3000")
			}
			sim.Kill("p5")
			sim.Advance(20 * time.Second)
			b.observe()
			if test.before != "" {
				b.pass(sim, 5*time.Minute)
				b.observe()
				b.byHand("maintenance off")
			}
			for second := range 6 * 60 {
				if second%10 == 0 { // the loss of another zone ends it
					b.byHand("maintenance on z1 3000")
				}
				evidence := b.observe()
				lacks := evidence.Members["p1"]["notTolerant"]
				if after := time.Duration(second) * time.Second; (lacks == "") != (after >= test.refused) {
					t.Fatalf("after %s: %q while %d shards lack copies", after, lacks, sim.Thin())
				}
				if stops := sim.WouldStop("p1", "p5"); lacks == "" && stops != "" {
					t.Fatalf("p1 may be away, and %s", stops)
				}
				if evidence.Members["p2"]["notTolerant"] == "" {
					t.Fatal("p2, which is of another zone, may be away")
				}
				sim.Advance(time.Second)
			}
		})
	}
}

// A manager that has not looked for long does not know what was there meanwhile.
func TestAGapIsNoMissingTime(t *testing.T) {
	sim := fdbsim.New(7, 2)
	b := newBench(t, simulated{sim}, 7, v1alpha1.FoundationDBWaits{})
	sim.Kill("p7")
	sim.Advance(time.Minute)
	b.observe()
	sim.Advance(10 * time.Minute)
	if facts := b.observe().Members["p7"]; facts["missingSeconds"] != int64(0) {
		t.Errorf("%v", facts)
	}
	b.pass(sim, 100*time.Second)
	if facts := b.observe().Members["p7"]; facts["missingSeconds"] != int64(100) {
		t.Errorf("%v", facts)
	}
}

// Without having observed the members nothing is excluded.
func TestNothingIsExcludedBeforeMembersWereObserved(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, 0))
	_, err := b.system.Prepare(t.Context(), preparationOf(b, "p5", foundationdb.Exclude))
	if err == nil || !strings.Contains(err.Error(), "which members are missing is not known yet") {
		t.Errorf("%v", err)
	}
}

// While its own zone is under maintenance a member may be away for a while with its data, and leave without it. It may not be given up with it.
func TestMaintenanceOfTheOwnZone(t *testing.T) {
	sim := fdbsim.New(8, 2)
	sim.Classes(strings.Fields("storage storage storage storage storage log log log")...)
	sim.Find("p5").Zone = "z4"
	sim.Advance(10 * time.Minute)
	b := newBench(t, simulated{sim}, 8, waits(0, 0, 2*time.Minute))
	stands := func(when string, want ...string) {
		t.Helper()
		var are []string
		evidence := b.observe()
		for _, id := range b.ids {
			if evidence.Members[id]["notTolerant"] == "" {
				are = append(are, id)
			}
		}
		if !slices.Equal(are, want) {
			t.Errorf("%s: the cluster stands that one of these is away: %v, not %v: %v", when, are, want, evidence.System["notTolerant"])
		}
	}
	b.byHand("maintenance on z4 3000")
	stands("under maintenance", "p4", "p5")
	sim.Kill("p4")
	b.pass(sim, 20*time.Second)
	stands("one of the zone is away", "p5")
	b.pass(sim, 10*time.Minute)
	if v := b.evict("p4"); v.Answer == eviction.Allowed || sim.WouldLose("p4") == "" {
		t.Errorf("it is given up with its data: %v %+v", v.Answer, v.Blockers)
	}
	if listing, err := b.system.(system.Membership).Listed(t.Context(), system.Member{MemberRef: b.ref("p4")}, &v1alpha1.MemberRegistration{ID: "p4"}); err != nil || !listing.Predecessor {
		t.Errorf("it has left: %+v %v", listing, err)
	}
	sim.Kill("p1")
	b.pass(sim, 20*time.Second)
	stands("one of another zone is away, too")
	sim.Start("p1")
	sim.Start("p4")
	b.pass(sim, 5*time.Minute)
	b.byHand("maintenance on z4 3000")
	b.byHand("exclude no_wait locality_instance_id:p5")
	b.until("it is emptied, and may leave", func() bool { return b.evict("p5").Answer == eviction.Allowed })
	if lost := sim.WouldLose("p5"); lost != "" {
		t.Error(lost)
	}
}
