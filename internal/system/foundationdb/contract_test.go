package foundationdb_test

import (
	"slices"
	"strings"
	"testing"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/test/fdbreal"
	"usher.sh/usher/test/fdbsim"
)

// on runs a case against a simulated cluster of n processes that keeps two copies of everything, and against a real one where there is one.
func on(t *testing.T, n int, test func(*testing.T, site)) {
	t.Helper()
	t.Run("simulated", func(t *testing.T) { test(t, simulated{fdbsim.New(n, 2)}) })
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		cluster := fdbreal.Start(t, n, "double ssd")
		cluster.Write("before", 200)
		test(t, realSite{cluster})
	})
}

// A member is emptied before it leaves, leaves only then, and gets data again when its eviction is withdrawn.
func TestAMemberIsEmptiedAndComesBack(t *testing.T) {
	on(t, 5, func(t *testing.T, s site) {
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
