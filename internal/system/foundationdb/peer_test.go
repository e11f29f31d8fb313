package foundationdb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb/status"
)

// peerNow is when the cases of the peer take place.
var peerNow = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// peerClasses are the processes of the peer's cluster: how many of which class, and their network.
var peerClasses = []struct {
	class   string
	n       int
	network string
	roles   []status.Role
}{
	{"storage", 5, "10.0.0", []status.Role{{Name: status.Storage}}},
	{"log", 5, "10.0.1", []status.Role{{Name: status.Log}}},
	{"stateless", 4, "10.0.2", nil},
}

// peerView is a complete status of the peer's cluster, in which nothing is missing: each process is a member, in a zone of its own.
func peerView(redundancy string, changes ...func(*view)) *view {
	v := &view{Status: &status.Status{}}
	v.Client.Database.Available, v.Client.Coordinators.Reachable = new(true), new(true)
	for i := range 3 {
		v.Client.Coordinators.Coordinators = append(v.Client.Coordinators.Coordinators, status.Coordinator{Address: fmt.Sprintf("10.0.9.%d:4500", i+1), Reachable: new(true)})
	}
	own := &v.Cluster
	own.Configuration = status.Configuration{Redundancy: redundancy, Usable: new(int64(1))}
	own.Recovery = status.Recovery{Name: "fully_recovered", Generations: new(int64(1)), Since: new(3600.0)}
	own.Processes = map[string]*status.Process{}
	for _, c := range peerClasses {
		for i := range c.n {
			id := fmt.Sprintf("%s-%d", c.class, i+1)
			own.Processes[id] = &status.Process{
				Address: fmt.Sprintf("%s.%d:4500", c.network, i+1), Class: c.class, Version: "7.3.63", Roles: c.roles,
				Locality: map[string]string{"instance_id": id, "zoneid": "zone-" + id},
			}
		}
	}
	need, _ := v.Copies()
	own.Data = status.Data{State: status.DataState{Name: "healthy", MinReplicas: &need}, Trackers: []status.Tracker{{State: status.DataState{Name: "healthy", MinReplicas: &need}}}}
	own.Logs = []status.Logs{{Tolerance: new(need - 1), Replication: &need}}
	own.FaultTolerance.Data = new(need - 1)
	for _, change := range changes {
		change(v)
	}
	return v
}

// peerCluster is one that has observed its members, and from which such have been missing for so long.
func peerCluster(missing map[string]time.Duration) *cluster {
	c := &cluster{
		timeout: time.Minute, now: func() time.Time { return peerNow }, begun: map[string]bool{}, roster: &roster{gone: map[string]absence{}},
		waits: waits{exclude: defaultExclude, include: defaultInclude, missing: defaultMissing},
	}
	c.roster.know(nil)
	for id, age := range missing {
		c.roster.gone[id] = absence{role: peerRole(id), since: peerNow.Add(-age)}
	}
	return c
}

func peerRole(id string) string {
	class, _, _ := strings.Cut(id, "-")
	return Name + "-" + class
}

// peerMember is a member whose pod has an IP; "": none is known.
func peerMember(id, ip string) system.Member {
	return system.Member{MemberRef: v1alpha1.MemberRef{Role: peerRole(id), ID: id, PodName: id}, Pod: &snapshot.Pod{Name: id, IP: ip}}
}

// recorder is an fdbcli that does what it is asked for, and knows what changes something.
type recorder struct{ asked, excluded []string }

// Run implements CLI.
func (r *recorder) Run(_ context.Context, _, command string) (Output, error) {
	if entries, is := strings.CutPrefix(command, "exclude no_wait "); is {
		r.asked, r.excluded = append(r.asked, command), append(r.excluded, strings.Fields(entries)...)
	}
	return Output{Out: strings.Join(r.excluded, "\n")}, nil
}

// Version implements CLI.
func (*recorder) Version(context.Context) (string, error) { return "7.3.63", nil }

// excludedAs has the list have an entry, and a process show it. It has the roles that it had.
func excludedAs(id string, e status.Exclusion) func(*view) {
	return func(v *view) {
		v.Cluster.Configuration.Excluded = append(v.Cluster.Configuration.Excluded, e)
		v.Cluster.Processes[id].Excluded = new(true)
	}
}

func excludedByItsID(id string) func(*view) {
	return excludedAs(id, status.Exclusion{Locality: "locality_instance_id:" + id})
}

// emptied has a process be without roles.
func emptied(id string) func(*view) { return func(v *view) { v.Cluster.Processes[id].Roles = nil } }

// draining has the list of exclusions in progress name addresses.
func draining(addresses ...string) func(*view) { return func(v *view) { v.draining = addresses } }

func withoutLocalities(v *view) {
	for _, p := range v.Cluster.Processes {
		p.Version = "7.1.41"
	}
}

// absent has processes be in the status no more.
func absent(ids ...string) func(*view) {
	return func(v *view) {
		for _, id := range ids {
			delete(v.Cluster.Processes, id)
		}
	}
}

// peerBudgets are the cases of how many are excluded at the same time, by their numbers: which of some members are, one after the other, while none of them is
// empty yet.
var peerBudgets = []struct {
	name       string
	redundancy string
	missing    map[string]time.Duration
	leave      []string
	want       []string
}{
	// The peer has none go that is not made up for; here one may, which loses no copy: its data is moved while it runs, and zones for it are left.
	{"8/97 single, none missing", "single", nil, []string{"storage-1", "storage-2"}, []string{"storage-1"}},
	{"8/97 double, none missing", "double", nil, []string{"storage-1", "storage-2"}, []string{"storage-1"}},
	{"8/97 triple, none missing", "triple", nil, []string{"storage-1", "storage-2", "storage-3"}, []string{"storage-1", "storage-2"}},
	{"8/98 double, one lost", "double", map[string]time.Duration{"storage-5": 10 * time.Minute}, []string{"storage-1", "storage-2"}, nil},
	{"8/98 triple, one lost", "triple", map[string]time.Duration{"storage-5": 10 * time.Minute}, []string{"storage-1", "storage-2"}, []string{"storage-1"}},
	{"8/100 one missed, two more than needed", "triple", map[string]time.Duration{"storage-5": time.Second}, []string{"storage-1", "storage-2"}, nil},
	{"8/100 one missed for as long as it may be, but a second", "triple", map[string]time.Duration{"storage-5": defaultMissing - time.Second}, []string{"storage-1"}, nil},
	// How many are to be is not known here, so what there is beyond that makes up for none that is lost: one fewer goes.
	{"8/100 double, one lost, two more than needed", "double", map[string]time.Duration{"storage-5": 10 * time.Minute}, []string{"storage-1"}, nil},
	{"8/100 triple, one lost, two more than needed", "triple", map[string]time.Duration{"storage-5": 10 * time.Minute}, []string{"storage-1", "storage-2"}, []string{"storage-1"}},
	{"8/101 one of another role missed", "double", map[string]time.Duration{"log-5": time.Second}, []string{"storage-1", "storage-2"}, []string{"storage-1"}},
	{"8/101 one of another role lost", "double", map[string]time.Duration{"log-5": 10 * time.Minute}, []string{"storage-1", "storage-2"}, []string{"storage-1"}},
	{"8/106 stateless and log, none missing", "double", nil, []string{"stateless-1", "log-1"}, []string{"stateless-1", "log-1"}},
	// The peer has both wait, so that the cluster recovers once; here each role waits for itself, as no data is at stake.
	{"8/106 stateless and log, a log missed", "double", map[string]time.Duration{"log-5": time.Second}, []string{"stateless-1", "log-1"}, []string{"stateless-1"}},
	// As in 8/100: the one that is lost counts, whatever there is beside it.
	{"8/106 stateless and log, double, a log lost", "double", map[string]time.Duration{"log-5": 10 * time.Minute}, []string{"stateless-1", "log-1"}, []string{"stateless-1"}},
	{"8/106 stateless and log, triple, a log lost", "triple", map[string]time.Duration{"log-5": 10 * time.Minute}, []string{"stateless-1", "log-1"}, []string{"stateless-1", "log-1"}},
}

func TestPeerBudgets(t *testing.T) {
	for _, test := range peerBudgets {
		t.Run(test.name, func(t *testing.T) {
			c, v := peerCluster(test.missing), peerView(test.redundancy, absent(slices.Collect(maps.Keys(test.missing))...))
			var got, refused []string
			for _, id := range test.leave {
				m := peerMember(id, "")
				if why := c.unexcludable(v, id, m.Role, v.processes(m), peerNow); why != "" {
					refused = append(refused, id+": "+why)
					continue
				}
				got = append(got, id)
				excludedByItsID(id)(v)
				if p := v.Cluster.Processes[id]; p.HasData() {
					v.draining = append(v.draining, p.HostPort())
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("excluded (-want +got):\n%s\nrefused: %q", diff, refused)
			}
			if len(got)+len(refused) != len(test.leave) {
				t.Errorf("of %v are excluded %v, refused %q", test.leave, got, refused)
			}
		})
	}
}

// asked is what came of a member that is to be excluded.
type asked struct {
	Commands []string
	Job      eviction.Job
	Ongoing  []string // zones of others that are on their way out
}

// peerExclusions are the cases of what is asked for where a member is to be excluded.
var peerExclusions = []struct {
	name  string
	given *view
	leave string
	want  asked
}{
	// An IP alone would be of all processes there; by IP:PORT only those of the member are included again.
	{"8/103 by addresses: marked", peerView("double", withoutLocalities), "storage-1", asked{
		Commands: []string{"exclude no_wait 10.0.0.1:4500"}, Job: eviction.Job{ID: "10.0.0.1:4500"},
	}},
	{"8/103 by addresses: that of before is excluded", peerView("double", withoutLocalities, func(v *view) {
		v.Cluster.Configuration.Excluded = []status.Exclusion{{Address: "10.0.0.1"}}
		v.Cluster.Processes["storage-1"].Address = "100.1.100.2:4500"
	}), "storage-1", asked{Commands: []string{"exclude no_wait 100.1.100.2:4500"}, Job: eviction.Job{ID: "100.1.100.2:4500"}}},
	{"8/103 by addresses: another is excluded", peerView("triple", withoutLocalities, excludedAs("storage-2", status.Exclusion{Address: "10.0.0.2"}), draining("10.0.0.2:4500")), "storage-1", asked{
		Commands: []string{"exclude no_wait 10.0.0.1:4500"}, Job: eviction.Job{ID: "10.0.0.1:4500"}, Ongoing: []string{"zone-storage-2"},
	}},
	{"8/103 by addresses: another is excluded, and empty", peerView("double", withoutLocalities, excludedAs("storage-2", status.Exclusion{Address: "10.0.0.2"}), emptied("storage-2")), "storage-1", asked{
		Commands: []string{"exclude no_wait 10.0.0.1:4500"}, Job: eviction.Job{ID: "10.0.0.1:4500"},
	}},
	{"8/103 by addresses: it is excluded", peerView("double", withoutLocalities, excludedAs("storage-1", status.Exclusion{Address: "10.0.0.1"})), "storage-1", asked{
		Job: eviction.Job{ID: "10.0.0.1", Found: true},
	}},
	{"8/104 by id: marked", peerView("double"), "storage-1", asked{
		Commands: []string{"exclude no_wait locality_instance_id:storage-1"}, Job: eviction.Job{ID: "locality_instance_id:storage-1"},
	}},
	{"8/104 by id: another is excluded by its IP", peerView("triple", excludedAs("storage-2", status.Exclusion{Address: "10.0.0.2"})), "storage-1", asked{
		Commands: []string{"exclude no_wait locality_instance_id:storage-1"}, Job: eviction.Job{ID: "locality_instance_id:storage-1"}, Ongoing: []string{"zone-storage-2"},
	}},
	// The peer excludes it by its id as well; here it is another client's, who may take it back: what comes back with data is not empty, and stays.
	{"8/104 by id: it is excluded by its IP", peerView("double", excludedAs("storage-1", status.Exclusion{Address: "10.0.0.1"})), "storage-1", asked{
		Job: eviction.Job{ID: "10.0.0.1", Found: true},
	}},
	{"8/104 by id: another is excluded by its id", peerView("triple", excludedByItsID("storage-2")), "storage-1", asked{
		Commands: []string{"exclude no_wait locality_instance_id:storage-1"}, Job: eviction.Job{ID: "locality_instance_id:storage-1"}, Ongoing: []string{"zone-storage-2"},
	}},
	{"8/104 by id: its id is on the list, and its process does not show it yet", peerView("double", func(v *view) {
		v.Cluster.Configuration.Excluded = []status.Exclusion{{Locality: "locality_instance_id:storage-1"}}
	}), "storage-1", asked{Job: eviction.Job{ID: "locality_instance_id:storage-1", Found: true}}},
	{"8/104 by id: it is excluded by its id", peerView("double", excludedByItsID("storage-1")), "storage-1", asked{
		Job: eviction.Job{ID: "locality_instance_id:storage-1", Found: true},
	}},
}

func TestPeerExclusions(t *testing.T) {
	for _, test := range peerExclusions {
		t.Run(test.name, func(t *testing.T) {
			calls, c, m := &recorder{}, peerCluster(nil), peerMember(test.leave, "")
			c.cli = calls
			job, err := c.exclude(t.Context(), test.given, eviction.Preparation{Name: Exclude, Member: m.MemberRef})
			if err != nil {
				t.Error(err)
			}
			got := asked{Commands: calls.asked, Job: job, Ongoing: test.given.drainingBeside(test.given.processes(m))}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
		})
	}
}

// emptiness is what is known of what a member has.
type emptiness struct {
	Draining, Known bool // by the list of exclusions in progress
	Empty           bool
	Needed          string // why it may not be given up
}

const (
	notEmpty = "it has a process in the status that is not empty"
	listed   = "the list of exclusions in progress names an address at its IP"
	unseen   = "the list of exclusions in progress names an address of no process in the status, and the IP of its pod is not known"
)

// second has a member's process have a twin at another address.
func second(address string) func(*view) {
	return func(v *view) {
		twin := *v.Cluster.Processes["storage-1"]
		twin.Address, twin.Excluded = address, nil
		v.Cluster.Processes["second"] = &twin
	}
}

func generations(n int64) func(*view) { return func(v *view) { v.Cluster.Recovery.Generations = &n } }

func says(message string) func(*view) {
	return func(v *view) { v.Cluster.Messages = append(v.Cluster.Messages, status.Message{Name: message}) }
}

// drained has a storage server be excluded, without roles.
func drained(changes ...func(*view)) *view {
	return peerView("double", append([]func(*view){excludedByItsID("storage-1"), emptied("storage-1")}, changes...)...)
}

// peerEmptiness are the cases of whether a member is empty, and may be given up: what the peer finds out by addresses to validate, and by their classification.
var peerEmptiness = []struct {
	name    string
	given   *view
	id, ip  string
	missing time.Duration
	want    emptiness
}{
	{"8/110 not marked", peerView("double"), "storage-1", "10.0.0.1", 0, emptiness{Known: true, Needed: notEmpty}},
	{"8/110 by its address", peerView("double", excludedAs("storage-1", status.Exclusion{Address: "10.0.0.1"}), draining("10.0.0.1:4500")), "storage-1", "10.0.0.1", 0, emptiness{
		Draining: true, Known: true, Needed: notEmpty,
	}},
	{"8/110 excluded, and in the status", drained(), "storage-1", "10.0.0.1", 0, emptiness{Known: true, Empty: true}},
	// The peer takes it as empty for good; here the list is read each time.
	{"8/110 excluded, and in the status, and the list names it again", drained(draining("10.0.0.1:4500")), "storage-1", "10.0.0.1", 0, emptiness{Draining: true, Known: true, Needed: notEmpty}},
	{"8/110 excluded, and in the status, and the list was not read", drained(func(v *view) { v.unlisted = "timed out" }), "storage-1", "10.0.0.1", 0, emptiness{Needed: notEmpty}},
	{"8/110 a log server, of which the status has no process", peerView("double", excludedByItsID("log-1"), absent("log-1"), draining("10.0.1.1:4500")), "log-1", "10.0.1.1", time.Minute, emptiness{
		Draining: true, Known: true, Needed: "no process of it has been in the status for 60 s, and it counts as lost after 300 s",
	}},
	{"8/110 a log server, of which the status has no process any more", peerView("double", excludedByItsID("log-1"), absent("log-1"), draining("10.0.1.1:4500")), "log-1", "10.0.1.1", time.Hour, emptiness{
		Draining: true, Known: true, Needed: listed,
	}},
	{"8/110 the same, and the IP of its pod is not known", peerView("double", excludedByItsID("log-1"), absent("log-1"), draining("10.0.1.1:4500")), "log-1", "", time.Hour, emptiness{
		Needed: unseen,
	}},
	{"8/110 two addresses", drained(second("10.0.0.99:4500"), excludedByItsID("second"), draining("10.0.0.99:4500")), "storage-1", "10.0.0.1", 0, emptiness{Draining: true, Known: true, Needed: notEmpty}},
	{"8/110 excluded, and not in the status: the list names it", drained(absent("storage-1"), draining("10.0.0.1:4500")), "storage-1", "10.0.0.1", time.Hour, emptiness{
		Draining: true, Known: true, Needed: listed,
	}},
	// The peer excludes it once more and waits for the answer; here the list has the same, and all copies are to be there beside.
	{"8/110 excluded, and not in the status: the list does not name it", drained(absent("storage-1")), "storage-1", "10.0.0.1", time.Hour, emptiness{Known: true}},
	{"8/110 excluded, and not in the status: a copy is missing", drained(absent("storage-1"), func(v *view) { v.Cluster.Data.Trackers[0].State.MinReplicas = new(int64(1)) }), "storage-1", "10.0.0.1", time.Hour, emptiness{
		Known: true, Needed: "some data has 1 copies left, and 2 are needed (state of the data: healthy)",
	}},
	{"8/130 excluded, with a role", peerView("double", excludedByItsID("storage-1")), "storage-1", "10.0.0.1", 0, emptiness{Known: true, Needed: notEmpty}},
	{"8/130 excluded, without a role", drained(), "storage-1", "10.0.0.1", 0, emptiness{Known: true, Empty: true}},
	{"8/130 not excluded, without a role", peerView("double", emptied("storage-1")), "storage-1", "10.0.0.1", 0, emptiness{Known: true, Needed: notEmpty}},
	{"8/130 not in the status", drained(absent("storage-1")), "storage-1", "10.0.0.1", 0, emptiness{
		Known: true, Needed: "no process of it has been in the status for 0 s, and it counts as lost after 300 s",
	}},
	// The peer goes by roles alone, which leave out older generations; the list has the log servers of all of them.
	{"8/130 two generations, the list does not name it", drained(generations(2)), "storage-1", "10.0.0.1", 0, emptiness{Known: true, Empty: true}},
	{"8/130 two generations, the list names it", drained(generations(2), draining("10.0.0.1:4500")), "storage-1", "10.0.0.1", 0, emptiness{Draining: true, Known: true, Needed: notEmpty}},
	{"8/130 the database is not available", drained(func(v *view) { v.Client.Database.Available = new(false) }), "storage-1", "10.0.0.1", 0, emptiness{Needed: notEmpty}},
	{"8/130 unreadable_configuration", drained(says("unreadable_configuration")), "storage-1", "10.0.0.1", 0, emptiness{Needed: notEmpty}},
	{"8/130 full_replication_timeout", drained(says("full_replication_timeout")), "storage-1", "10.0.0.1", 0, emptiness{Needed: notEmpty}},
	{"8/130 storage_servers_error", drained(says("storage_servers_error")), "storage-1", "10.0.0.1", 0, emptiness{Needed: notEmpty}},
	{"8/130 log_servers_error", drained(says("log_servers_error")), "storage-1", "10.0.0.1", 0, emptiness{Needed: notEmpty}},
	{"8/130 client_issues", drained(says("client_issues")), "storage-1", "10.0.0.1", 0, emptiness{Known: true, Empty: true}},
	// Both are one member here, so they go together or not at all.
	{"8/131 two at one IP, one of them has a role", peerView("double", second("10.0.0.1:4501"), excludedByItsID("storage-1"), excludedByItsID("second"), emptied("second")), "storage-1", "10.0.0.1", 0, emptiness{
		Known: true, Needed: notEmpty,
	}},
	{"8/131 two at one IP, one of them is listed", drained(second("10.0.0.1:4501"), excludedByItsID("second"), emptied("second"), draining("10.0.0.1:4501")), "storage-1", "10.0.0.1", 0, emptiness{
		Draining: true, Known: true, Needed: notEmpty,
	}},
	{"8/131 two at one IP, none of them has a role", drained(second("10.0.0.1:4501"), excludedByItsID("second"), emptied("second")), "storage-1", "10.0.0.1", 0, emptiness{Known: true, Empty: true}},
	{"8/131 two at one IP, one of them is not excluded", drained(second("10.0.0.1:4501"), emptied("second")), "storage-1", "10.0.0.1", 0, emptiness{Known: true, Needed: notEmpty}},
}

func TestPeerEmptiness(t *testing.T) {
	for _, test := range peerEmptiness {
		t.Run(test.name, func(t *testing.T) {
			missing := map[string]time.Duration{}
			if test.missing > 0 {
				missing[test.id] = test.missing
			}
			c, v, m := peerCluster(missing), test.given, peerMember(test.id, test.ip)
			var got emptiness
			processes := v.processes(m)
			got.Draining, got.Known = v.inProgress(m, processes)
			got.Empty, got.Needed = v.empty(m, processes), c.needed(v, m)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("it is (-want +got):\n%s", diff)
			}
		})
	}
}

// peerElsewhere are the cases of the peer's tests of exclusions and safety checks that another test has.
var peerElsewhere = map[string]string{
	"8/133": "package status: TestPeerTolerance",
	"8/134": "package status: TestWhatIsAbsentIsNotKnown, of log servers",
	"8/136": "package status: TestWhatIsAbsentIsNotKnown, of three copies where there are two",
	"8/137": "package status: TestWhatIsAbsentIsNotKnown, of recoveries; a version before 7.1.22 is refused: TestVersions",
	"8/139": "package status: TestPeerBehind",
}

// Each case of the peer's tests of exclusions and safety checks is a row, or elsewhere.
func TestPeerIsWhole(t *testing.T) {
	var names []string
	for _, test := range peerBudgets {
		names = append(names, test.name)
	}
	for _, test := range peerExclusions {
		names = append(names, test.name)
	}
	for _, test := range peerEmptiness {
		names = append(names, test.name)
	}
	found := map[string]bool{}
	for _, name := range names {
		of, _, _ := strings.Cut(name, " ")
		found[of] = true
	}
	for _, n := range []int{97, 98, 100, 101, 103, 104, 106, 110, 130, 131, 133, 134, 136, 137, 139} {
		if of := fmt.Sprintf("8/%d", n); found[of] == (peerElsewhere[of] != "") {
			t.Errorf("%s is a row: %t, and elsewhere: %q", of, found[of], peerElsewhere[of])
		}
	}
}
