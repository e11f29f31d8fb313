package foundationdb_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/test/fdbreal"
	"usher.sh/usher/test/fdbsim"
)

// run is a MemberSet's view of a site.
type run struct {
	*bench

	set system.Emptying
}

func newRun(t *testing.T, s site, n int) run {
	t.Helper()
	b := newBenchOf(t, s, n, v1alpha1.FoundationDB{Waits: waits(0, 0, 20*time.Second), Redundancy: v1alpha1.RedundancyDouble})
	return run{b, b.system.(system.Emptying)}
}

// member is one as the set asks about it: its pod has the IP of its process.
func (r run) member(id string) system.Member {
	m := system.Member{MemberRef: r.ref(id), Joining: slices.Contains(r.joining, id)}
	if address := r.site.address(int(id[1] - '0')); address != "" {
		ip, _, _ := strings.Cut(address, ":")
		m.Pod = &snapshot.Pod{Name: id, IP: ip}
	}
	return m
}

func (r run) members() (all []system.Member) {
	for _, id := range r.ids {
		all = append(all, r.member(id))
	}
	return all
}

// entry is what is known of a member; false: nothing is now.
func (r run) entry(id string) (memberset.Entry, bool) {
	r.t.Helper()
	listing, err := r.set.Contents(r.t.Context(), r.members())
	at := slices.IndexFunc(listing.Entries, func(e memberset.Entry) bool { return e.Name == id })
	if err != nil || at < 0 {
		return memberset.Entry{}, false
	}
	return listing.Entries[at], true
}

// is waits until a member is as a test wants it.
func (r run) is(what, id string, holds func(e memberset.Entry) bool) {
	r.t.Helper()
	r.until(id+" is "+what, func() bool {
		e, known := r.entry(id)
		return known && holds(e)
	})
}

func (r run) whole() {
	r.t.Helper()
	for _, id := range r.ids {
		r.is("whole", id, func(e memberset.Entry) bool { return e.Whole && e.Processes == 1 && !e.Empty && !e.Excluded })
	}
	r.settled()
}

// emptied has a member be emptied, as the set asks for it at each look. It is empty by no look at which something would be lost with it, and no coordinator moves
// before.
func (r run) emptied(id string) {
	r.t.Helper()
	sim, simulated := r.site.(simulated)
	r.until(id+" is empty", func() bool {
		e, known := r.entry(id)
		if simulated && known && e.Empty && sim.WouldLose(id) != "" {
			r.t.Fatalf("%s may go, and %s", id, sim.WouldLose(id))
		}
		missing, err := r.set.Empty(r.t.Context(), r.member(id))
		if simulated && sim.Draining(id) && strings.Contains(strings.Join(sim.Commands(), "\n"), "coordinators") {
			r.t.Fatalf("coordinators move before %s is empty: %q", id, sim.Commands())
		}
		return err == nil && missing == ""
	})
}

func (r run) refilled(id string) {
	r.t.Helper()
	r.until(id+" is refilled", func() bool {
		missing, err := r.set.Refill(r.t.Context(), r.member(id))
		return err == nil && missing == ""
	})
}

// The database is made once the processes of all members are there, and no second one.
func TestTheFirstMembersMakeTheDatabase(t *testing.T) {
	test := func(t *testing.T, s site) {
		t.Helper()
		r := newRun(t, s, 5)
		if listing, err := r.set.Contents(t.Context(), r.members()); err == nil {
			t.Errorf("without a database: %+v", listing)
		}
		absent := append(r.members(), system.Member{MemberRef: v1alpha1.MemberRef{ID: "p9"}})
		r.until("a member is missing", func() bool {
			missing, err := r.set.Form(t.Context(), absent)
			return err == nil && strings.Contains(missing, "no process of p9")
		})
		if _, err := r.set.Contents(t.Context(), absent); err == nil || errors.Is(err, system.ErrNotFormed) || !strings.Contains(err.Error(), "no process of p9") {
			t.Errorf("a member is missing: %v", err)
		}
		if _, err := r.set.Contents(t.Context(), r.members()); !errors.Is(err, system.ErrNotFormed) {
			t.Errorf("all members are there: %v", err)
		}
		if _, err := r.set.Contents(t.Context(), r.members()); err == nil {
			t.Error("the database was made without a member")
		}
		r.until("there is a database", func() bool {
			missing, err := r.set.Form(t.Context(), r.members())
			return err == nil && missing == ""
		})
		r.whole()
		if missing, err := r.set.Form(t.Context(), r.members()); missing != "" || err != nil {
			t.Errorf("asked for again: %q, %v", missing, err)
		}
	}
	t.Run("simulated", func(t *testing.T) {
		cluster := fdbsim.NewUnformed(5, 2)
		test(t, simulated{cluster})
		if commands := cluster.Commands(); !slices.Equal(commands, []string{"configure new double ssd"}) {
			t.Errorf("fdbcli was asked for %q", commands)
		}
	})
	t.Run("real", func(t *testing.T) { test(t, realSite{fdbreal.StartUnformed(t, 5)}) })
}

// A database that cannot be reached is not made anew.
func TestNoDatabaseIsMadeWhereOneMayBe(t *testing.T) {
	cluster := fdbsim.New(5, 2)
	r := newRun(t, simulated{cluster}, 5)
	cluster.Kill("p1")
	cluster.Kill("p2")
	for range 60 {
		cluster.Advance(time.Second)
		if missing, err := r.set.Form(t.Context(), r.members()); err != nil || missing == "" {
			t.Fatalf("%q, %v", missing, err)
		}
	}
	cluster.Start("p1")
	cluster.Start("p2")
	cluster.Advance(time.Minute)
	cluster.Recover() // it is not available for a moment, and all processes are there
	if missing, err := r.set.Form(t.Context(), r.members()); err != nil || !strings.Contains(missing, "whether there is a database is not known") {
		t.Errorf("%q, %v", missing, err)
	}
	if _, err := r.set.Contents(t.Context(), r.members()); err == nil || errors.Is(err, system.ErrNotFormed) {
		t.Errorf("%v", err)
	}
	if commands := cluster.Commands(); len(commands) > 0 {
		t.Errorf("fdbcli was asked for %q", commands)
	}
}

// A member is emptied, and may go only then; taken back, it has data again.
func TestAMemberOfASetIsEmptiedAndRefilled(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		r := newRun(t, s, 5)
		r.whole()
		r.emptied("p4")
		r.is("empty", "p4", func(e memberset.Entry) bool { return e.Empty && e.Excluded && !e.Whole })
		if e, known := r.entry("p5"); known && e.Empty {
			t.Error("p5 may go, and has data")
		}
		r.refilled("p4")
		r.is("whole", "p4", func(e memberset.Entry) bool { return e.Whole && !e.Empty && !e.Excluded })
	})
}

// A coordinator is one no more before it goes, and the file by which the cluster is found follows, under the same description. Of a member that is gone no
// exclusion stays.
func TestACoordinatorOfASetGoes(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		r := newRun(t, s, 5)
		r.whole()
		before, err := r.set.Contents(t.Context(), r.members())
		if err != nil {
			t.Fatal(err)
		}
		r.emptied("p1")
		var after memberset.Listing
		r.until("the file is another", func() bool {
			after, err = r.set.Contents(t.Context(), r.members())
			return err == nil && after.File != before.File && after.Cluster == before.Cluster
		})
		if strings.Contains(after.File, s.address(1)) {
			t.Errorf("the file is %q", after.File)
		}
		s.kill("p1")
		r.refilled("p1")
		if e, known := r.entry("p1"); known && e.Excluded {
			t.Error("it is still excluded")
		}
	})
}

// A coordinator that cannot be reached is replaced by another, and the file follows.
func TestOthersLeadInThePlaceOfALostCoordinator(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		r := newRun(t, s, 5)
		r.whole()
		s.kill("p1")
		r.until("it is away", func() bool {
			listing, err := r.set.Contents(t.Context(), r.members())
			ip, _, _ := strings.Cut(s.address(1), ":")
			return err == nil && slices.Equal(listing.Away, []string{ip})
		})
		r.until("others lead", func() bool {
			missing, err := r.set.Lead(t.Context())
			return err == nil && missing == ""
		})
		if listing, err := r.set.Contents(t.Context(), r.members()); err == nil && len(listing.Away) > 0 {
			t.Errorf("away are %v", listing.Away)
		}
	})
}

// No more are emptied at once than the redundancy allows for.
func TestNotTwoZonesOfASetAtOnce(t *testing.T) {
	cluster := fdbsim.New(5, 2)
	r := newRun(t, simulated{cluster}, 5)
	r.whole()
	r.until("p3 is excluded", func() bool {
		_, err := r.set.Empty(t.Context(), r.member("p3"))
		e, known := r.entry("p3")
		return err == nil && known && e.Excluded
	})
	for cluster.Draining("p3") {
		missing, err := r.set.Empty(t.Context(), r.member("p4"))
		if err != nil || missing == "" {
			t.Fatalf("p4: %q, %v", missing, err)
		}
		if cluster.Draining("p4") {
			t.Fatal("p4 is excluded beside p3")
		}
		cluster.Advance(time.Second)
	}
	r.emptied("p4")
	if cluster.Lost() > 0 {
		t.Error("data is lost")
	}
}

// Of two that are replaced one successor gets no pod, as where a quota refuses it: the predecessor of the other is emptied, and goes.
func TestASuccessorWithoutAPodKeepsNoOther(t *testing.T) {
	cluster := fdbsim.New(5, 2)
	r := newRun(t, simulated{cluster}, 5)
	r.whole()
	cluster.Add("p6", "z6")
	r.ids, r.joining = append(r.ids, "p6", "p7"), []string{"p6", "p7"}
	r.is("whole", "p6", func(e memberset.Entry) bool { return e.Whole })
	r.joining = []string{"p7"}
	r.pass(cluster, 5*time.Minute)
	r.emptied("p1")
	if e, known := r.entry("p7"); !known || e.Processes != 0 {
		t.Errorf("p7 has a process: %+v: the case is none", e)
	}
}

// A lost member may go once it counts as lost and all that it had is elsewhere; nothing is excluded for it.
func TestALostMemberOfASetGoes(t *testing.T) {
	cluster := fdbsim.New(5, 2)
	r := newRun(t, simulated{cluster}, 5)
	r.whole()
	cluster.Kill("p5")
	r.emptied("p5")
	if thin := cluster.Thin(); thin > 0 || len(cluster.Excluded()) > 0 {
		t.Errorf("it may go, and %d shards have too few copies; excluded are %v", thin, cluster.Excluded())
	}
}

// Exclusions by an address would outlive the member: a version that knows no other is refused, and one of another client's is left alone.
func TestExclusionsByAddress(t *testing.T) {
	cluster := fdbsim.New(5, 2)
	r := newRun(t, simulated{cluster}, 5)
	r.whole()
	ip, _, _ := strings.Cut(r.site.address(4), ":")
	r.byHand("exclude no_wait " + ip)
	r.emptied("p4")
	r.refilled("p4")
	if left := cluster.Excluded(); !slices.Equal(left, []string{ip}) {
		t.Errorf("excluded are %v", left)
	}
	r.byHand("include " + ip)
	cluster.Find("p2").Version = "7.1.30"
	r.until("it is refused", func() bool {
		_, err := r.set.Empty(t.Context(), r.member("p4"))
		return errors.Is(err, system.ErrTerminal) && strings.Contains(err.Error(), "does not exclude by instance_id")
	})
}

// What is excluded by the id of no member keeps that id from being given.
func TestAnExclusionOfNoMemberIsKnown(t *testing.T) {
	r := newRun(t, simulated{fdbsim.New(5, 2)}, 5)
	r.byHand("exclude no_wait locality_instance_id:kv-storage-9")
	r.is("excluded", "kv-storage-9", func(e memberset.Entry) bool { return e.Excluded && !e.Whole })
}

// counted counts the statuses that are asked for.
type counted struct {
	foundationdb.CLI

	statuses int
}

func (c *counted) Run(ctx context.Context, file, command string) (foundationdb.Output, error) {
	if command == "status json" {
		c.statuses++
	}
	return c.CLI.Run(ctx, file, command)
}

type countedSite struct {
	simulated

	counts *counted
}

func (s countedSite) cli() foundationdb.CLI { return s.counts }

// A set asks about each of its members at one look: as long as nothing is to be done one status says it of all, and what is done goes by a new one.
func TestOneStatusForAllMembers(t *testing.T) {
	sim := fdbsim.New(7, 2)
	s := countedSite{simulated{sim}, &counted{CLI: sim}}
	r := newRun(t, s, 7)
	sim.Advance(10 * time.Minute)
	r.pass(sim, time.Minute)
	look := func(ids ...string) int {
		t.Helper()
		before := s.counts.statuses
		if _, err := r.set.Contents(t.Context(), r.members()); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if _, err := r.set.Empty(t.Context(), r.member(id)); err != nil {
				t.Fatal(err)
			}
		}
		return s.counts.statuses - before
	}
	look("p7")
	if !slices.Equal(sim.Excluded(), []string{"locality_instance_id:p7"}) {
		t.Fatalf("exclusions: %v", sim.Excluded())
	}
	sim.Advance(20 * time.Second)
	if n := look("p7", "p6", "p5", "p4", "p3"); n != 1 || len(sim.Excluded()) != 1 {
		t.Errorf("while one is emptied, and others wait for it: %d statuses for five members; exclusions: %v", n, sim.Excluded())
	}
	sim.Advance(10 * time.Minute)
	before := len(sim.Excluded())
	if n := look("p6", "p5", "p4"); n < 2 || len(sim.Excluded()) != before+1 {
		t.Errorf("one may be excluded, and then the others may not: %d statuses; exclusions: %v", n, sim.Excluded())
	}
}
