package foundationdb_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/internal/system/foundationdb/status"
)

// A process that has just begun is in the status for seconds without id and zone. A real status is not complete meanwhile, and nothing is known of members. Where
// it is, the process is found by the IP of its pod, and its member is neither empty nor excluded.
func TestAProcessThatHasJustBegun(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		b := newBench(t, s, 5, waits(0, 0, 0))
		b.settled()
		ip, _, _ := strings.Cut(s.address(5), ":")
		s.kill("p5")
		b.until("it is missed", func() bool { return b.observe().Members["p5"]["reports"] == false })
		s.start("p5")
		bare := false
		b.until("it has its id", func() bool {
			bare = bare || isBare(t, s, s.address(5))
			b.members = []system.Member{b.at("p5", ip)}
			evidence, err := b.system.Observe(t.Context(), b.members)
			if err != nil {
				return false
			}
			facts := evidence.Members["p5"]
			whole := facts["zone"] == "z5"
			if !whole && (facts["empty"] == true || facts["inProgress"] != nil && facts["reports"] == true) {
				t.Errorf("without its id it is known to be empty, or not to be emptied: %v", facts)
			}
			job, err := b.system.Prepare(t.Context(), preparationOf(b, "p5", foundationdb.Exclude)) // it may have its id by now
			if err == nil && job.ID != "locality_instance_id:p5" {
				t.Errorf("it is excluded by %q, not by its id", job.ID)
			}
			return whole
		})
		if !bare {
			t.Error("it was never in the status without its id: the case is none")
		}
	})
}

// isBare reports whether the status has a process at an address, and says neither its id nor its zone.
func isBare(t *testing.T, s site, address string) bool {
	t.Helper()
	out, err := s.cli().Run(t.Context(), s.clusterFile(t), "status json")
	if err != nil {
		return false
	}
	read, err := status.Parse([]byte(out.Out))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(read.Processes(), func(p *status.Process) bool { return p.HostPort() == address && p.Instance() == "" && p.Zone() == "" })
}

// The list of exclusions in progress names what has left the status with its data, also of a real cluster: the member stays while it does, whatever else the status says.
func TestTheListNamesWhatHasLeftTheStatus(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		b := newBench(t, s, 5, waits(0, 0, 10*time.Second))
		b.settled()
		ip, _, _ := strings.Cut(s.address(5), ":")
		b.byHand("exclude no_wait locality_instance_id:p5")
		s.kill("p5")
		named := false
		b.until("p5 may go", func() bool {
			b.members = []system.Member{b.at("p5", ip)}
			evidence, err := b.system.Observe(t.Context(), b.members)
			if err != nil {
				return false
			}
			evidence.Observed = s.now()
			facts := evidence.Members["p5"]
			goes := eviction.Judge(b.input(evidence, "p5")).Answer == eviction.Allowed
			if named = named || facts["reports"] == false && facts["inProgress"] == true; goes && facts["inProgress"] != false {
				t.Errorf("it may go, and what it has is on its way: %v", facts)
			}
			return goes
		})
		if !named {
			t.Error("the list never named it while it was not in the status: the case is none")
		}
	})
}
