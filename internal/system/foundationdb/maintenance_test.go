package foundationdb_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/test/fdbsim"
)

// newMaintained is a run of a set whose pods are made anew under maintenance.
func newMaintained(t *testing.T, s site) run {
	t.Helper()
	r := newRun(t, s, 5)
	r.maintained = true
	var err error
	if r.policy, err = compiledOfSet(); err != nil {
		t.Fatal(err)
	}
	return r
}

// maintain has a zone be under maintenance, for as long as is asked for.
func (r run) maintain(zone string, timeout time.Duration) {
	r.t.Helper()
	r.until("zone "+zone+" is under maintenance", func() bool {
		missing, err := r.set.Maintain(r.t.Context(), zone, timeout)
		return err == nil && missing == ""
	})
}

func (r run) endMaintenance(zone string) {
	r.t.Helper()
	r.until("the maintenance of zone "+zone+" has ended", func() bool {
		missing, err := r.set.EndMaintenance(r.t.Context(), zone)
		return err == nil && missing == ""
	})
}

func (r run) zone() string {
	listing, err := r.set.Contents(r.t.Context(), r.members())
	if err != nil {
		return err.Error()
	}
	return listing.Maintenance.Zone
}

// The pod of a member goes with its data while its zone is under maintenance, and no other one does; it comes back, and nothing was moved.
func TestAPodIsMadeAnewUnderMaintenance(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		long(t, s)
		r := newMaintained(t, s)
		r.whole()
		r.until("p4 waits for its maintenance alone", func() bool {
			v := r.evict("p4")
			return slices.Equal(reasons(v), []string{"AwaitsMaintenance"}) && len(v.Needed) == 0
		})
		r.maintain("z4", 20*time.Minute)
		if missing, err := r.set.Maintain(t.Context(), "z5", time.Minute); err != nil || !strings.Contains(missing, "zone z4 is under maintenance") {
			t.Errorf("of another zone: %q, %v", missing, err)
		}
		if missing, err := r.set.EndMaintenance(t.Context(), "z5"); err != nil || missing != "" || r.zone() != "z4" {
			t.Errorf("that of another zone ends: %q, %v, and zone %q is", missing, err, r.zone())
		}
		r.until("p4 may leave", func() bool { return r.evict("p4").Answer == eviction.Allowed })
		if v := r.evict("p5"); !slices.Contains(reasons(v), "ZoneUnderMaintenance") || !slices.Contains(reasons(v), "AwaitsMaintenance") {
			t.Errorf("p5: %v", reasons(v))
		}
		if v := eviction.JudgeReplace(r.input(r.observe(), "p4")); !slices.Contains(reasons(v), "NotEmpty") {
			t.Errorf("p4 may be replaced with its data: %v", reasons(v))
		}
		s.kill("p4")
		r.is("gone", "p4", func(e memberset.Entry) bool { return e.Processes == 0 && !e.Empty })
		if v := r.evict("p5"); v.Answer == eviction.Allowed {
			t.Error("p5 may leave while p4 is away")
		}
		s.start("p4")
		r.is("back", "p4", func(e memberset.Entry) bool { return e.Whole && e.Zone == "z4" && !e.Empty })
		r.endMaintenance("z4")
		if zone := r.zone(); zone != "" {
			t.Errorf("zone %q is under maintenance", zone)
		}
		r.until("the next one waits for its maintenance alone", func() bool { return slices.Equal(reasons(r.evict("p5")), []string{"AwaitsMaintenance"}) })
	})
}

// A member that is a coordinator hands that over before its zone is under maintenance.
func TestACoordinatorHandsOverBeforeItsMaintenance(t *testing.T) {
	r := newMaintained(t, simulated{fdbsim.New(5, 2)})
	r.whole()
	if e, _ := r.entry("p1"); !e.Leads {
		t.Error("it is not known to be a coordinator")
	}
	v := r.evict("p1")
	if !needs(v, foundationdb.MoveCoordinators) || needs(v, foundationdb.Exclude) || !slices.Contains(reasons(v), "CoordinatesCluster") {
		t.Errorf("p1: %v, needed %v", reasons(v), v.Needed)
	}
	r.until("other coordinators are chosen", func() bool {
		_, err := r.prepare("p1", foundationdb.MoveCoordinators, eviction.Job{})
		return err == nil
	})
	r.is("no coordinator", "p1", func(e memberset.Entry) bool { return !e.Leads })
}

// No maintenance begins that would conceal what is missing, and none is renewed.
func TestNoMaintenanceBeginsBesideALoss(t *testing.T) {
	sim := fdbsim.New(5, 2)
	r := newMaintained(t, simulated{sim})
	r.whole()
	sim.Kill("p5")
	for range 60 {
		sim.Advance(time.Second)
		if missing, err := r.set.Maintain(t.Context(), "z4", time.Minute); err == nil && missing == "" || slices.ContainsFunc(sim.Commands(), func(c string) bool { return strings.HasPrefix(c, "maintenance") }) {
			t.Fatalf("%q, %v: %q", missing, err, sim.Commands())
		}
	}
	r.until("what is missing was made up for, and a zone that is no word is refused", func() bool {
		_, err := r.set.Maintain(t.Context(), "z4; exclude p1", time.Minute)
		return errors.Is(err, system.ErrTerminal)
	})
}

// A maintenance goes on while what came back is behind, until it ends by itself.
func TestAMaintenanceEndsOnceNoneIsBehind(t *testing.T) {
	sim := fdbsim.New(5, 2)
	r := newMaintained(t, simulated{sim})
	r.whole()
	r.maintain("z4", 10*time.Minute)
	sim.Behind(61 * time.Second)
	if missing, err := r.set.EndMaintenance(t.Context(), "z4"); err != nil || !strings.Contains(missing, "61 s behind") {
		t.Errorf("%q, %v", missing, err)
	}
	sim.Behind(0)
	r.endMaintenance("z4")
	r.maintain("z4", 2*time.Minute)
	r.until("it has less than a minute left, and its pod stays", func() bool { return slices.Equal(reasons(r.evict("p4")), []string{"AwaitsMaintenance"}) })
	r.until("it has ended by itself", func() bool { return r.zone() == "" })
}

// The pod of a member whose process does not run is made anew without maintenance: nothing is lost with it. It is so for no other.
func TestAPodWithoutAProcessIsMadeAnew(t *testing.T) {
	sim := fdbsim.New(5, 2)
	r := newMaintained(t, simulated{sim})
	r.whole()
	sim.Kill("p4")
	sim.Advance(10 * time.Second)
	if v := r.evict("p4"); v.Answer == eviction.Allowed {
		t.Error("it may go within seconds")
	}
	r.pass(sim, 80*time.Second)
	if v := r.evict("p4"); v.Answer != eviction.Allowed {
		t.Errorf("after a minute and a half: %v", reasons(v))
	}
	if v := r.evict("p5"); v.Answer == eviction.Allowed {
		t.Error("p5 may go as well")
	}
	r.policy, _ = compiled()
	if v := r.evict("p4"); v.Answer == eviction.Allowed {
		t.Error("so it is without maintenance")
	}
}
