package foundationdb_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/test/fdbsim"
)

// A process that has left the status while its exclusion is in progress still has its data: its member is not empty, whether the IP of its pod is known
// or not. Where it is, what is unseen at another IP does not keep the member.
func TestAProcessThatLeavesTheStatusWithData(t *testing.T) {
	for name, leave := range map[string]func(*fdbsim.Cluster){
		"out of sight": func(sim *fdbsim.Cluster) { sim.Hide("p5", true) },
		"down":         func(sim *fdbsim.Cluster) { sim.Kill("p5"); sim.Advance(20 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			sim := fdbsim.New(5, 2)
			b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
			sim.Add("p5", "z5") // at 10.0.0.16
			sim.Advance(10 * time.Minute)
			if _, err := b.prepare("p5", foundationdb.Exclude, eviction.Job{}); err != nil {
				t.Fatal(err)
			}
			leave(sim)
			unseen := false
			for range 300 {
				sim.Advance(time.Second)
				evidence := b.observe()
				addresses, _ := evidence.Members["p5"]["addresses"].([]string)
				left := sim.DrainingProcesses("p5")
				unseen = unseen || left == 1 && slices.Equal(addresses, []string{"10.0.0.16:4500"}) && !drains(t, sim, "10.0.0.16:4500")
				if v := eviction.Judge(b.input(evidence, "p5")); (v.Answer == eviction.Allowed || evidence.Members["p5"]["empty"] == true) && left > 0 {
					t.Fatalf("it is empty while %d processes of it have data: %v", left, evidence.Members["p5"])
				}
				if b.observeAll(b.at("p5", "10.0.0.15")).Members["p5"]["empty"] == true && left > 0 {
					t.Fatal("it is empty while the list names an address of its pod")
				}
			}
			if !unseen {
				t.Error("the process that is unseen was never the only one with data: the case is none")
			}
		})
	}
}

func drains(t *testing.T, sim *fdbsim.Cluster, address string) bool {
	t.Helper()
	out, err := sim.Run(t.Context(), sim.ClusterFile(), foundationdb.InProgress)
	if err != nil {
		t.Fatal(err)
	}
	all, err := out.Draining()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(all, address)
}

// Where one process is of a version that knows no localities, the list says nothing of what is excluded by locality alone. Usher excludes by IP there.
func TestAnOldVersionAmongTheProcesses(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	sim.Find("p1").Version = "7.3.25"
	b.byHand("exclude no_wait locality_instance_id:p5")
	for range 600 {
		sim.Advance(time.Second)
		if facts := b.observe().Members["p5"]; facts["empty"] == true || facts["inProgress"] != nil {
			t.Fatalf("it is known to be empty: %v", facts)
		}
	}
	b.byHand("exclude no_wait 10.0.0.15")
	b.until("it is excluded by its IP, and empty", func() bool { return b.observe().Members["p5"]["empty"] == true })
	sim.Advance(time.Minute)
	if job, err := b.prepare("p4", foundationdb.Exclude, eviction.Job{}); err != nil || job.ID != "10.0.0.14:4500" {
		t.Errorf("%+v %v", job, err)
	}
}

// To include an IP includes each IP:PORT there.
func TestExclusionsOfOthersAtTheSameIP(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	sim.Find("p1").Version = "7.3.25"
	b.byHand("exclude no_wait 10.0.0.14:4501")
	sim.Advance(time.Minute)
	b.observe()
	job, err := b.prepare("p4", foundationdb.Exclude, eviction.Job{})
	if err != nil || job != (eviction.Job{ID: "10.0.0.14:4500"}) {
		t.Fatalf("%+v %v", job, err)
	}
	sim.Advance(time.Minute)
	if _, err := b.undo("p4", foundationdb.Exclude, job); err != nil {
		t.Fatal(err)
	}
	if left := sim.Excluded(); !slices.Equal(left, []string{"10.0.0.14:4501"}) {
		t.Errorf("exclusions are %v", left)
	}
}

// What has just begun has an id, which the status does not have yet.
func TestAProcessWithoutLocalityIsNotExcluded(t *testing.T) {
	sim := fdbsim.New(5, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	sim.Add("p6", "z6") // at 10.0.0.16
	refused := false
	for range 30 {
		sim.Advance(time.Second)
		b.observeAll(b.at("p6", "10.0.0.16"))
		_, err := b.prepare("p6", foundationdb.Exclude, eviction.Job{})
		refused = refused || err != nil && strings.Contains(err.Error(), "a process of it has just begun")
	}
	if excluded := sim.Excluded(); !refused || !slices.Equal(excluded, []string{"locality_instance_id:p6"}) {
		t.Errorf("it was refused: %t; exclusions are %v", refused, excluded)
	}
}

// Exclusions by address of a process that has come back at another one are the step's own still.
func TestAProcessThatComesBackAtAnotherAddress(t *testing.T) {
	sim := fdbsim.New(6, 2)
	b := newBench(t, simulated{sim}, 5, waits(0, 0, time.Minute))
	sim.Find("p1").Version = "7.3.25"
	job, err := b.prepare("p4", foundationdb.Exclude, eviction.Job{})
	if err != nil {
		t.Fatal(err)
	}
	sim.Advance(5 * time.Minute)
	sim.Kill("p4")
	sim.Advance(time.Minute)
	sim.Add("p4", "z4") // at 10.0.0.17
	b.pass(sim, 5*time.Minute)
	if job, err = b.prepare("p4", foundationdb.Exclude, job); err != nil || job != (eviction.Job{ID: "10.0.0.14:4500,10.0.0.17:4500"}) {
		t.Fatalf("%+v %v", job, err)
	}
	sim.Advance(time.Minute)
	if _, err := b.undo("p4", foundationdb.Exclude, job); err != nil || len(sim.Excluded()) != 0 {
		t.Errorf("exclusions are left: %v %v", sim.Excluded(), err)
	}
}

// A process that begins is in the status without its id at first. A lost member does not go while that may be its process, which is a coordinator again.
func TestALostMemberWhoseProcessBegins(t *testing.T) {
	for _, role := range []string{"foundationdb-storage", "foundationdb-log"} {
		t.Run(role, func(t *testing.T) {
			sim := fdbsim.New(6, 2)
			sim.Classes("storage")
			b := newBench(t, simulated{sim}, 6, waits(0, 0, 2*time.Minute))
			b.roles["p1"] = role
			b.observe()
			sim.Kill("p1")
			b.pass(sim, 10*time.Minute)
			b.observe()
			sim.Start("p1")
			sim.Advance(time.Second)
			judged := func() [2][]string {
				input := b.input(b.observe(), "p1")
				return [2][]string{reasons(eviction.Judge(input)), reasons(eviction.JudgeReplace(input))}
			}
			if diff := cmp.Diff([2][]string{{"NotEmpty"}, {"NotEmpty"}}, judged()); diff != "" {
				t.Errorf("while its process has no id (-want +got):\n%s", diff)
			}
			sim.Advance(10 * time.Second)
			if diff := cmp.Diff([2][]string{{"NotEmpty", "CoordinatesCluster"}, {"NotEmpty", "CoordinatesCluster"}}, judged()); diff != "" {
				t.Errorf("once it has its id (-want +got):\n%s", diff)
			}
		})
	}
}

// The list is read of what is excluded and has left the status, too. While it names an address of a lost member, or is not known, that does not go: a log server that
// is only out of sight has commits that no other has.
func TestALostMemberWhoseExclusionIsInProgress(t *testing.T) {
	for _, role := range []string{"foundationdb-storage", "foundationdb-log"} {
		t.Run(role, func(t *testing.T) {
			sim := fdbsim.New(6, 2)
			b := newBench(t, simulated{sim}, 6, waits(0, 0, 2*time.Minute))
			b.roles["p5"] = role
			b.byHand("exclude no_wait locality_instance_id:p5")
			sim.Kill("p5")
			sim.Advance(20 * time.Second)
			if facts := b.observeAll(b.at("p5", "10.0.0.15")).Members["p5"]; facts["reports"] != false || facts["inProgress"] != true || !sim.Draining("p5") {
				t.Errorf("%v", facts)
			}
			b.pass(sim, 10*time.Minute)
			evidence := b.observeAll(b.at("p5", "10.0.0.15"))
			for _, test := range []struct {
				inProgress string
				known, is  bool
				want       []string
			}{
				{"false", true, false, nil}, {"true", true, true, []string{"NotEmpty"}}, {"not known", false, false, []string{"NotEmpty"}},
			} {
				delete(evidence.Members["p5"], "inProgress")
				if test.known {
					evidence.Members["p5"]["inProgress"] = test.is
				}
				for _, v := range []eviction.Verdict{eviction.Judge(b.input(evidence, "p5")), eviction.JudgeReplace(b.input(evidence, "p5"))} {
					if diff := cmp.Diff(test.want, reasons(v)); diff != "" {
						t.Errorf("in progress: %s (-want +got):\n%s%+v", test.inProgress, diff, v.Blockers)
					}
					if len(test.want) > 0 && !strings.HasPrefix(v.Blockers[0].Remedy, "wait until the list of exclusions in progress names no address of it") {
						t.Errorf("the remedy is %q", v.Blockers[0].Remedy)
					}
				}
			}
		})
	}
}
