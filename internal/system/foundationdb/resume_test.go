package foundationdb_test

import (
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/test/fdbsim"
)

// A cluster file that was written anew, or a policy that was changed, has nothing be forgotten of the same cluster.
func TestWhatIsKnownOfTheSameCluster(t *testing.T) {
	for name, test := range map[string]struct {
		rewritten bool // the policy's file, once the coordinators have moved
		other     string
		missing   int64
		stale     bool
	}{
		"the policy has changed":     {missing: 60, stale: true},
		"the file is written anew":   {rewritten: true, missing: 60},
		"it leads to another":        {other: "other:id0@10.0.0.11:4500\n"},
		"the description is other's": {other: "sim:other@10.0.0.11:4500\n"},
	} {
		t.Run(name, func(t *testing.T) {
			sim := fdbsim.New(5, 2)
			b := newBench(t, simulated{sim}, 5, v1alpha1.FoundationDBWaits{})
			first := sim.ClusterFile()
			b.byHand("coordinators 10.0.0.11:4500 10.0.0.12:4500 10.0.0.14:4500")
			sim.Advance(5 * time.Minute)
			b.observe() // it is led there, by coordinators that go then
			sim.EndFormer()
			sim.Kill("p5")
			sim.Advance(30 * time.Second)
			b.observe()
			sim.Advance(time.Minute)
			file := first
			if test.rewritten {
				file = sim.ClusterFile()
			}
			if test.other != "" {
				file = test.other
			}
			after := newBenchOf(t, fileOf{simulated{sim}, file}, 5, v1alpha1.FoundationDB{})
			after.system.(system.Resumer).Resume(b.system)
			evidence := after.observe()
			if test.other != "" {
				if evidence.Error == "" {
					t.Errorf("it goes on with the coordinators of another cluster: %v", evidence.System)
				}
				return
			}
			if got := evidence.Members["p5"]["missingSeconds"]; got != test.missing {
				t.Errorf("missing for %v s, not %d: %s", got, test.missing, evidence.Error)
			}
			if stale := strings.Contains(evidence.Summary, "the coordinators have moved"); stale != test.stale {
				t.Errorf("the policy's file is old: %t: %s", stale, evidence.Summary)
			}
		})
	}
}

// An exclusion of Usher's own whose answer was lost is known to be that by what follows.
func TestOwnExclusionsOfTheSameCluster(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	sim.LoseAnswers(true)
	if job, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{}); err == nil {
		t.Errorf("%+v", job)
	}
	sim.LoseAnswers(false)
	sim.Advance(time.Minute)
	after := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	after.system.(system.Resumer).Resume(b.system)
	if job, err := after.prepare("p5", foundationdb.Exclude, eviction.Job{}); err != nil || job != (eviction.Job{ID: "locality_instance_id:p5"}) {
		t.Errorf("%+v %v", job, err)
	}
}

// fileOf is a site whose policy has another cluster file.
type fileOf struct {
	simulated
	file string
}

func (f fileOf) clusterFile(*testing.T) string { return f.file }
