package foundationdb_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/test/fdbsim"
)

// The sentences of source 002 about FoundationDB itself. Those about how members are replaced and recreated are in package memberset, those about which are unhealthy in
// package replacement.
var source002 = []struct {
	number string
	says   string
	holds  func(t *testing.T)
}{
	{"46", "MissingProcesses: This indicates that a process is not reporting to the database.", func(t *testing.T) {
		t.Helper()
		sim := fdbsim.New(5, 2)
		b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
		sim.Kill("p5")
		sim.Advance(20 * time.Second)
		evidence := b.observe()
		for _, id := range b.ids {
			if does, known := foundationdb.Kind().Reports(evidence.Members[id]); !known || does != (id != "p5") {
				t.Errorf("%s reports: %t, known: %t", id, does, known)
			}
		}
	}},
	{"47", "The FoundationDB Kubernetes operator supports to make use of the maintenance mode in FoundationDB.", func(t *testing.T) {
		t.Helper()
		r := newMaintained(t, simulated{fdbsim.New(5, 2)})
		r.whole()
		r.maintain("z4", 20*time.Minute)
		if zone := r.zone(); zone != "z4" {
			t.Errorf("zone %q is under maintenance", zone)
		}
		r.endMaintenance("z4")
		if zone := r.zone(); zone != "" {
			t.Errorf("zone %q is under maintenance still", zone)
		}
	}},
	{"48", "Using the maintenance mode in FoundationDB will reduce the data distribution and disruption when Storage Pods must be updated.", func(t *testing.T) {
		t.Helper()
		for _, maintained := range []bool{false, true} {
			sim := fdbsim.New(5, 2)
			r := newMaintained(t, simulated{sim})
			r.whole()
			if maintained {
				r.maintain("z4", 20*time.Minute)
			}
			sim.Kill("p4")
			r.pass(sim, 5*time.Minute)
			if moved := sim.Thin() == 0; moved == maintained {
				t.Errorf("under maintenance: %t; what was on p4 was moved: %t", maintained, moved)
			}
			sim.Start("p4")
			r.pass(sim, time.Minute)
			if thin := sim.Thin(); thin > 0 {
				t.Errorf("under maintenance: %t; p4 is back, and %d shards lack copies", maintained, thin)
			}
		}
	}},
	{"49", "Only Pods that are updated (deleted and recreated) will be considered during the maintenance mode.", func(t *testing.T) {
		t.Helper()
		r := newMaintained(t, simulated{fdbsim.New(5, 2)})
		r.whole()
		r.maintain("z4", 20*time.Minute)
		r.until("the pod of p4 may go, to be made anew", func() bool { return r.evict("p4").Answer == eviction.Allowed })
		if v := eviction.JudgeReplace(r.input(r.observe(), "p4")); !slices.Contains(reasons(v), "NotEmpty") {
			t.Errorf("p4 may be replaced with its data: %v", reasons(v))
		}
		if v := r.evict("p5"); v.Answer == eviction.Allowed {
			t.Error("the pod of p5 may go, and its zone is not under maintenance")
		}
	}},
	{"50", "The Technical Design: Exclude Processes has more details on the steps and saftey checks performed by the operator before excluding processes.", func(t *testing.T) { //nolint:misspell // as the source has it
		t.Helper()
		for _, check := range safetyChecks {
			t.Run(check.name, func(t *testing.T) {
				sim := fdbsim.New(check.size, 2)
				b := newBench(t, simulated{sim}, check.size, v1alpha1.FoundationDBWaits{})
				b.observe()
				check.happens(b, sim)
				before := sim.Excluded()
				_, err := b.prepare("p2", foundationdb.Exclude, eviction.Job{})
				if (err == nil) != (check.refuses == "") || err != nil && !strings.Contains(err.Error(), check.refuses) {
					t.Errorf("%v", err)
				}
				if excluded := !slices.Equal(sim.Excluded(), before); excluded != (check.refuses == "") {
					t.Errorf("it is excluded: %t", excluded)
				}
			})
		}
	}},
}

// safetyChecks are what p2 of a cluster of some size is not excluded for; "": it is.
var safetyChecks = []struct {
	name    string
	size    int
	happens func(b *bench, sim *fdbsim.Cluster)
	refuses string
}{
	{"nothing is wrong", 5, func(*bench, *fdbsim.Cluster) {}, ""},
	{"the database is not available", 5, func(_ *bench, sim *fdbsim.Cluster) { sim.Recover() }, "the database is not available"},
	{"a recovery is over for less than two minutes", 5, func(b *bench, sim *fdbsim.Cluster) { sim.Recover(); b.pass(sim, 119*time.Second) }, "less than 120 s have passed since the last recovery"},
	{"a recovery is over for two minutes", 5, func(b *bench, sim *fdbsim.Cluster) { sim.Recover(); b.pass(sim, 2*time.Minute) }, ""},
	{"another is missing for less than five minutes", 5, func(b *bench, sim *fdbsim.Cluster) { sim.Kill("p5"); b.pass(sim, 4*time.Minute) }, "p5 of the same role has had no process"},
	{"another is lost", 5, func(b *bench, sim *fdbsim.Cluster) { sim.Kill("p5"); b.pass(sim, 10*time.Minute) }, "others are on their way out, as many as double redundancy allows at once"},
	{"too few zones would be left", 3, func(b *bench, sim *fdbsim.Cluster) {
		b.byHand("exclude no_wait locality_instance_id:p3")
		b.pass(sim, 10*time.Minute)
	}, "without it 1 zones may hold data, and 2 are needed"},
}

func TestSource002(t *testing.T) {
	for i, s := range source002 {
		if i > 0 && s.number <= source002[i-1].number || strings.TrimSpace(s.says) == "" {
			t.Errorf("sentence %s", s.number)
		}
		t.Run(s.number, func(t *testing.T) {
			t.Log(s.says)
			s.holds(t)
		})
	}
}
