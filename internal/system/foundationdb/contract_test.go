package foundationdb_test

import (
	"context"
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

// on runs a case against a simulated cluster of five processes that keeps two copies of everything, and against a real one where there is one.
func on(t *testing.T, test func(*testing.T, site)) {
	t.Helper()
	const n = 5
	t.Run("simulated", func(t *testing.T) { test(t, simulated{fdbsim.New(n, 2)}) })
	t.Run("real", func(t *testing.T) {
		cluster := fdbreal.Start(t, n, "double ssd")
		cluster.Write("before", 200)
		test(t, realSite{cluster})
	})
}

// A member is emptied before it leaves, leaves only then, and gets data again when its eviction is withdrawn.
func TestAMemberIsEmptiedAndComesBack(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		b := newBench(t, s, 5, waits(0, 0, 0))
		b.until("p4 can be excluded", func() bool {
			v := b.evict("p4")
			return slices.Equal(reasons(v), []string{"NotEmpty"}) && needs(v, foundationdb.Exclude)
		})
		job, err := b.prepare("p4", foundationdb.Exclude, eviction.Job{})
		if err != nil || job != (eviction.Job{ID: "locality_instance_id:p4"}) {
			t.Fatalf("job %+v, %v", job, err)
		}
		b.until("asked for again, it says the same", func() bool {
			again, err := b.prepare("p4", foundationdb.Exclude, job)
			return err == nil && again == job
		})
		b.until("p4 may leave", func() bool {
			evidence := b.observe()
			v := eviction.Judge(b.input(evidence, "p4"))
			facts := evidence.Members["p4"]
			if draining, known := facts["inProgress"].(bool); v.Answer == eviction.Allowed && (!known || draining) {
				t.Errorf("it may leave while its exclusion is in progress: %v", facts)
			}
			return v.Answer == eviction.Allowed
		})
		if v := b.evict("p5"); v.Answer == eviction.Allowed {
			t.Error("p5 may leave, and has data")
		}
		b.until("the exclusion is taken back", func() bool {
			undone, err := b.undo("p4", foundationdb.Exclude, job)
			if undone.Left != "" || err != nil && !strings.Contains(err.Error(), "status") && !strings.Contains(err.Error(), "available") && !strings.Contains(err.Error(), "recover") {
				t.Fatalf("undone: %+v, %v", undone, err)
			}
			return undone.Done
		})
		if v := b.evict("p4"); v.Answer == eviction.Allowed {
			t.Error("it may leave, and gets data again")
		}
		b.until("p4 has data again", func() bool { return b.observe().Members["p4"]["hasData"] == true })
	})
}

// long skips a real cluster where tests are to be short: one case is enough then.
func long(t *testing.T, s site) {
	t.Helper()
	if _, real := s.(realSite); real && testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: -short leaves out all cases of a real cluster but one")
	}
}

// settled waits until a cluster is as it is to be.
func (b *bench) settled() {
	b.t.Helper()
	b.until("the cluster stands what its redundancy promises", func() bool { return b.observe().System["notTolerant"] == "" })
}

// An excluded coordinator stays one, so its roles are never none. FoundationDB warns of that and does nothing.
func TestACoordinatorIsOneNoMoreBeforeItLeaves(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		b := newBench(t, s, 5, waits(0, 0, 0))
		b.settled()
		b.until("p1 is excluded", func() bool {
			_, err := b.prepare("p1", foundationdb.Exclude, eviction.Job{})
			return err == nil
		})
		b.until("p1 is empty, and still a coordinator", func() bool {
			v := b.evict("p1")
			return slices.Equal(reasons(v), []string{"CoordinatesCluster"}) && needs(v, foundationdb.MoveCoordinators)
		})
		b.until("other coordinators are chosen", func() bool {
			_, err := b.prepare("p1", foundationdb.MoveCoordinators, eviction.Job{})
			return err == nil
		})
		var evidence *eviction.Evidence
		b.until("p1 may leave", func() bool {
			evidence = b.observe()
			return eviction.Judge(b.input(evidence, "p1")).Answer == eviction.Allowed
		})
		if now := evidence.System["coordinators"].([]string); len(now) != 3 || slices.Contains(now, s.address(1)) {
			t.Errorf("coordinators are %v", now)
		}
		// The policy's cluster file leads to the coordinators before. One that has left leads nowhere, and the newest file is known by then.
		if !strings.Contains(evidence.Summary, "the coordinators have moved") {
			t.Errorf("the summary does not say that the policy's cluster file is old: %s", evidence.Summary)
		}
		s.kill("p1")
		b.until("the cluster answers without p1", func() bool { return b.observe().System["problem"] == "" })
	})
}

// What another client has excluded is found, and stays when the step is taken back.
func TestAnExclusionOfAnotherClientStays(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		b := newBench(t, s, 5, waits(0, 0, 0))
		b.settled()
		ip, _, _ := strings.Cut(s.address(4), ":")
		b.byHand("exclude no_wait " + ip)
		var job eviction.Job
		b.until("it is found", func() bool {
			var err error
			job, err = b.prepare("p4", foundationdb.Exclude, eviction.Job{})
			return err == nil
		})
		if job != (eviction.Job{ID: ip, Found: true}) {
			t.Errorf("the job is %+v", job)
		}
		b.until("taking it back ends", func() bool {
			undone, err := b.undo("p4", foundationdb.Exclude, job)
			if undone.Done && !strings.Contains(undone.Left, "fdbcli --exec 'include "+ip+"'") {
				t.Errorf("left is %q", undone.Left)
			}
			return err == nil && undone.Done
		})
		b.until("it is excluded, and has not joined", func() bool {
			left, known := b.observe().System["exclusions"].([]string)
			if known && !slices.Equal(left, []string{ip}) {
				t.Fatalf("exclusions are %v", left)
			}
			missing, err := b.system.(system.Membership).Join(t.Context(), system.Member{MemberRef: b.ref("p4")}, nil)
			return known && err == nil && strings.Contains(missing, "it is excluded by "+ip)
		})
	})
}

// Every recovery makes the status incomplete for seconds, and for longer it does not say how many copies there are. Meanwhile nothing is known of members, none leaves,
// and the cluster is not known to stand the loss of a zone.
func TestARecoveryMakesTheStatusIncomplete(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		b := newBench(t, s, 5, waits(0, 0, 0))
		b.settled()
		b.byHand("exclude no_wait locality_instance_id:p3")
		incomplete, copiesUnknown := false, false
		b.until("the status is whole again", func() bool {
			evidence := b.observe()
			whole := evidence.Error == "" && evidence.System["problem"] == "" && evidence.System["minReplicas"] != nil
			incomplete = incomplete || evidence.Error == "" && evidence.System["problem"] != ""
			for _, id := range b.ids {
				if eviction.Judge(b.input(evidence, id)).Answer == eviction.Allowed && !whole {
					t.Fatalf("%s may leave: %v %v", id, evidence.System, evidence.Members[id])
				}
				if facts := evidence.Members[id]; evidence.System["problem"] != "" && len(facts) > 0 {
					t.Fatalf("the status is not complete, and says of %s: %v", id, facts)
				}
			}
			if evidence.Error == "" && evidence.System["problem"] == "" && evidence.System["minReplicas"] == nil {
				copiesUnknown = true
				if lacks, _ := evidence.System["notTolerant"].(string); !strings.Contains(lacks, "how many copies of the data there are is not known yet") {
					t.Fatalf("how many copies there are is not known, and it lacks %q", lacks)
				}
			}
			return whole && evidence.Members["p3"]["excluded"] == true && (incomplete || copiesUnknown) // else it is that of before
		})
		if _, is := s.(simulated); is && (!incomplete || !copiesUnknown) {
			t.Errorf("the simulator's status was incomplete: %t, and without copies: %t", incomplete, copiesUnknown)
		}
	})
}

// FoundationDB excludes three of five without a word. Usher does not.
func TestThreeOfFiveAreNotExcluded(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		b := newBench(t, s, 5, waits(0, 0, 0))
		b.settled()
		ip := func(i int) string {
			host, _, _ := strings.Cut(s.address(i), ":")
			return host
		}
		b.byHand("exclude no_wait " + ip(3) + " " + ip(4))
		b.until("the third is refused for what is in progress, or for the zones that are left", func() bool {
			_, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{})
			if err == nil {
				t.Fatal("a third of five is excluded")
			}
			return strings.Contains(err.Error(), "on their way out")
		})
		b.until("the two are empty, and the third is still refused where two zones would not be left", func() bool {
			v := b.evict("p4")
			if b.evict("p5").Answer == eviction.Allowed {
				t.Fatal("p5 may leave, and has data")
			}
			return v.Answer == eviction.Allowed
		})
		b.byHand("exclude no_wait " + ip(5))
		b.until("the third of five is excluded by hand", func() bool { return b.observe().Members["p5"]["excluded"] == true })
		b.until("a fourth is refused", func() bool {
			_, err := b.prepare("p2", foundationdb.Exclude, eviction.Job{})
			if err == nil {
				t.Fatal("a fourth of five is excluded")
			}
			return strings.Contains(err.Error(), "1 zones may hold data, and 2 are needed") || strings.Contains(err.Error(), "on their way out")
		})
	})
}

// Maintenance of one zone keeps the members of others. A second one replaces the first in silence, and each recovery takes 100 s of it.
func TestMaintenanceOfAnotherZoneKeepsMembers(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		b := newBench(t, s, 5, waits(0, 0, 0))
		b.settled()
		b.byHand("maintenance on z5 1000")
		b.until("zone z5 is under maintenance, for p4", func() bool { return slices.Contains(reasons(b.evict("p4")), "ZoneUnderMaintenance") })
		if slices.Contains(reasons(b.evict("p5")), "ZoneUnderMaintenance") {
			t.Error("it keeps members of its own zone")
		}
		before := b.observe().System["maintenanceSeconds"].(int64)
		b.byHand("exclude no_wait locality_instance_id:p3")
		b.until("a recovery has taken 100 s of it", func() bool {
			left, known := b.observe().System["maintenanceSeconds"].(int64)
			return known && left < before-90
		})
		b.byHand("maintenance on z4 1000")
		b.until("zone z4 is, and z5 is not", func() bool {
			evidence := b.observe()
			if zone := evidence.System["maintenanceZone"]; zone != "z4" {
				return false
			}
			return slices.Contains(reasons(eviction.Judge(b.input(evidence, "p5"))), "ZoneUnderMaintenance")
		})
		b.byHand("maintenance off")
		b.until("none is", func() bool { return b.observe().System["maintenanceZone"] == "" })
	})
}

// While a process is freshly dead the status takes seconds and is not whole, nothing more leaves, and nothing is excluded. Once it counts as lost and
// all copies are there again, it may go.
func TestADeadProcess(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		b := newBench(t, s, 5, waits(0, 0, 20*time.Second))
		b.settled()
		s.kill("p5")
		comesInTime(b)
		b.until("it is missed", func() bool { return b.observe().Members["p5"]["reports"] == false })
		if _, err := b.prepare("p4", foundationdb.Exclude, eviction.Job{}); err == nil {
			t.Error("another is excluded while it may be about to come back")
		}
		gone := system.Member{MemberRef: b.ref("p5")}
		list := b.system.(system.Membership)
		if listing, err := list.Listed(t.Context(), gone, &v1alpha1.MemberRegistration{ID: "p5"}); err == nil && !listing.Predecessor {
			t.Error("it has left as soon as it is gone")
		}
		b.until("it may go", func() bool {
			evidence := b.observe()
			gone := eviction.Judge(b.input(evidence, "p5"))
			if other := eviction.Judge(b.input(evidence, "p4")); other.Answer == eviction.Allowed {
				t.Errorf("p4 may leave, and has data: %v", evidence.Members["p4"])
			}
			if gone.Answer == eviction.Allowed && evidence.System["notTolerant"] != "" {
				t.Errorf("it may go, and what it had is not elsewhere: %v", evidence.System)
			}
			return gone.Answer == eviction.Allowed
		})
		if v := b.evict("p4"); needs(v, foundationdb.Exclude) {
			t.Error("another would be excluded, as many as the redundancy allows for are lost already")
		}
		b.until("it has left", func() bool {
			listing, err := list.Listed(t.Context(), gone, &v1alpha1.MemberRegistration{ID: "p5"})
			missing, failed := list.Leave(t.Context(), gone, nil)
			return err == nil && failed == nil && !listing.Predecessor && missing == ""
		})
		s.start("p5")
		b.until("it is back, and has data", func() bool {
			v := b.evict("p5")
			return slices.Equal(reasons(v), []string{"NotEmpty"}) && needs(v, foundationdb.Exclude)
		})
	})
}

// comesInTime waits until a status comes within the time that it has by default; one that does not says nothing. A simulator's takes its time.
func comesInTime(b *bench) {
	b.t.Helper()
	b.until("a status comes in time while a process is freshly dead", func() bool {
		ctx, cancel := context.WithTimeout(b.t.Context(), foundationdb.DefaultTimeout)
		defer cancel()
		began := b.site.now()
		_, err := b.system.Observe(ctx, b.members)
		took := b.site.now().Sub(began)
		b.t.Logf("a process is freshly dead: the status took %s: %v", took, err)
		if _, is := b.site.(simulated); is && took < 2*time.Second {
			b.t.Errorf("the simulator's status took %s: the case is none", took)
		}
		return err == nil
	})
}

// A zone that is dead under maintenance looks as if nothing were missing but for the cluster's own count, and so it does for a minute after that.
func TestADeadZoneUnderMaintenance(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		b := newBench(t, s, 5, waits(0, 0, 0))
		b.settled()
		b.byHand("maintenance on z5 2000")
		s.kill("p5")
		killed := s.now()
		b.until("all copies seem to be there", func() bool {
			evidence := b.observe()
			for _, id := range b.ids {
				if eviction.Judge(b.input(evidence, id)).Answer == eviction.Allowed {
					t.Fatalf("%s may leave: %v", id, evidence.System)
				}
			}
			return evidence.System["problem"] == "" && evidence.Members["p5"]["reports"] == false && evidence.System["minReplicas"] == int64(2)
		})
		if lacks := b.observe().System["notTolerant"]; lacks == "" {
			t.Error("the cluster seems to stand the loss of a zone")
		}
		b.until("without a maintenance FoundationDB would have found out by now", func() bool { b.observe(); return s.now().Sub(killed) > 2*time.Minute })
		b.byHand("maintenance off")
		off, concealed, revealed := s.now(), false, false
		b.until("what it had is elsewhere", func() bool {
			evidence := b.observe()
			if evidence.Error != "" || evidence.System["problem"] != "" {
				return false
			}
			copies, lacks := evidence.System["minReplicas"], evidence.System["notTolerant"]
			concealed, revealed = concealed || copies == int64(2) && !revealed, revealed || copies == int64(1)
			// A real cluster was seen to find out after 60 to 70 s.
			if lacks == "" && !revealed && s.now().Sub(off) < 90*time.Second {
				t.Fatalf("%s after the maintenance it stands the loss of a zone, and p5 is missed: %v", s.now().Sub(off), evidence.System)
			}
			return lacks == ""
		})
		if !concealed {
			t.Error("what is missing was never concealed after the maintenance: the case is none")
		}
	})
}

// A coordinator that is lost for good is replaced by another process once it counts as lost.
func TestALostCoordinatorIsReplaced(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		b := newBench(t, s, 5, waits(0, 0, 10*time.Second))
		b.settled()
		s.kill("p1")
		b.until("others are to be coordinators", func() bool { return needs(b.evict("p1"), foundationdb.MoveCoordinators) })
		b.until("they are", func() bool {
			_, err := b.prepare("p1", foundationdb.MoveCoordinators, eviction.Job{})
			return err == nil
		})
		b.until("it may go", func() bool { return b.evict("p1").Answer == eviction.Allowed })
	})
}

// Exit codes and words of fdbcli do not tell: what was asked for is looked for.
func TestWhatFDBCLISays(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		run := func(command string) foundationdb.Output {
			out, err := s.cli().Run(t.Context(), s.clusterFile(t), command)
			if err != nil {
				t.Fatalf("%s: %v", command, err)
			}
			return out
		}
		if out := run("exclude no_wait nonsense"); out.Failed() == nil {
			t.Errorf("it takes nonsense: %+v", out)
		}
		if r, real := s.(realSite); real {
			if out, err := r.FDBCLI(t.Context(), "exclude nonsense"); err != nil || !strings.Contains(out, "ERROR") {
				t.Errorf("the exit code tells of nonsense: %v: %s", err, out)
			}
		}
		if out := run("exclude no_wait 10.99.9.9"); out.Failed() != nil || !strings.Contains(out.Out+out.Err, "Missing from cluster") {
			t.Errorf("it does not exclude what is not there, or does not say that: %+v", out)
		}
		if out := run("exclude"); !strings.Contains(out.Out, "10.99.9.9") {
			t.Errorf("what is not there is not on the list: %+v", out)
		}
		if draining, err := run(foundationdb.InProgress).Draining(); err != nil || len(draining) != 0 {
			t.Errorf("what is not there has data: %v %v", draining, err)
		}
		newBench(t, s, 5, waits(0, 0, 0)).byHand("exclude no_wait 10.99.9.9:2 locality_instance_id:none")
		for _, test := range []struct{ include, left string }{{"10.99.9.9:1", "10.99.9.9 10.99.9.9:2 locality_instance_id:none"}, {"10.99.9.9", "locality_instance_id:none"}} {
			if out := run("include " + test.include); out.Failed() != nil {
				t.Errorf("%+v", out)
			}
			var left []string
			for line := range strings.Lines(run("exclude").Out) {
				if strings.HasPrefix(line, "  ") {
					left = append(left, strings.TrimSpace(line))
				}
			}
			slices.Sort(left)
			if strings.Join(left, " ") != test.left {
				t.Errorf("after an include of %s there are %v", test.include, left)
			}
		}
	})
}
