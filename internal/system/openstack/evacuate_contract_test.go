package openstack_test

import (
	"slices"
	"strings"
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system/openstack"
)

// contradicted is said while Nova takes a host that is off for up: so it does for a while after its last report.
const contradicted = "although its node is proven off"

// deadBench is a bench at compute-1, which is off.
type deadBench struct{ *bench }

func newDeadBench(t *testing.T, s site) deadBench {
	t.Helper()
	return deadBench{newBench(t, s, v1alpha1.OpenStack{})}
}

func (b *deadBench) evacuation() eviction.Preparation {
	return eviction.Preparation{Name: openstack.EvacuateServers, Namespace: "cloud", Member: b.ref("compute-1"), Job: b.job}
}

// ask asks for the step once, which fails for no other reason than that Nova does not know yet that the host is off.
func (b *deadBench) ask() {
	b.t.Helper()
	job, err := b.system.Prepare(b.t.Context(), b.evacuation())
	if err != nil && !strings.Contains(err.Error(), contradicted) {
		b.t.Fatal(err)
	}
	if job.ID != "" {
		b.job = job
	}
}

// gone asks for the step until no server is left on the host that is waited for.
func (b *deadBench) gone(ids ...string) {
	b.t.Helper()
	b.until("the servers are elsewhere", func() bool {
		b.ask()
		return !slices.ContainsFunc(ids, func(id string) bool {
			_, host := b.site.state(b.t, id)
			return host == "compute-1"
		})
	})
}

// back gives the host back, which is on again.
func (b *deadBench) back() (undone eviction.Undone) {
	b.t.Helper()
	b.until("the host is given back", func() bool {
		var err error
		undone, err = b.system.Undo(b.t.Context(), b.evacuation())
		if err != nil && !strings.Contains(err.Error(), "stays marked as down: ") {
			b.t.Fatal(err)
		}
		return undone.Done
	})
	return undone
}

// Nova 5 to 8: each server of a dead host is rebuilt elsewhere once, as it was, and the mark is taken off when the host's own nova-compute has started and has cleaned
// up. What was evacuated stays where it is.
func TestNova8ADeadHostIsEvacuatedAndGivenBack(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		b := newDeadBench(t, s)
		states := map[string]string{s.boot(t, "web-1", "compute-1", "active"): "active", s.boot(t, "web-2", "compute-1", "active"): "active", s.boot(t, "batch", "compute-1", "stopped"): "stopped"}
		var ids []string
		for id := range states {
			ids = append(ids, id)
		}
		s.off(t, "compute-1")
		b.gone(ids...)
		b.until("the evacuations are done", func() bool {
			b.ask()
			return !slices.ContainsFunc(ids, func(id string) bool { return !slices.Equal(s.evacuations(t, id), []string{"done"}) })
		})
		for id, want := range states {
			if state, host := s.state(t, id); state != want || host == "compute-1" {
				t.Errorf("%s is %s on %s, and was %s", id, state, host, want)
			}
		}
		if enabled, forced, reason := s.service(t, "compute-1"); enabled || !forced || !strings.HasPrefix(reason, "Usher (policy cloud/usher): its node is proven off") {
			t.Errorf("enabled %t, marked as down %t: %s", enabled, forced, reason)
		}
		if undone, err := b.system.Undo(t.Context(), b.evacuation()); err == nil || !strings.Contains(err.Error(), "has to start and to clean up") {
			t.Errorf("it is off: %+v, %v", undone, err)
		}
		s.on(t, "compute-1")
		if undone := b.back(); !strings.Contains(undone.Left, "servers that were evacuated off compute-1 stay where they are") {
			t.Error(undone.Left)
		}
		for id, want := range states {
			if state, host := s.state(t, id); state != want || host == "compute-1" || !slices.Equal(s.evacuations(t, id), []string{"completed"}) {
				t.Errorf("%s is %s on %s, evacuations: %v", id, state, host, s.evacuations(t, id))
			}
		}
		if enabled, forced, reason := s.service(t, "compute-1"); !enabled || forced || reason != "" {
			t.Errorf("enabled %t, marked as down %t: %s", enabled, forced, reason)
		}
	})
}

// Nova 4: of a host that Nova hears of nothing is evacuated, nor is it marked as down.
func TestNova4AHostThatReportsIsNotEvacuated(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		b := newDeadBench(t, s)
		id := s.boot(t, "web", "compute-1", "active")
		for range 3 {
			if _, err := b.system.Prepare(t.Context(), b.evacuation()); err == nil || !strings.Contains(err.Error(), contradicted) {
				t.Errorf("%v", err)
			}
			s.pass(t.Context())
		}
		if state, host := s.state(t, id); state != "active" || host != "compute-1" || len(s.evacuations(t, id)) > 0 {
			t.Errorf("it is %s on %s, evacuations: %v", state, host, s.evacuations(t, id))
		}
		if enabled, forced, reason := s.service(t, "compute-1"); !enabled || forced {
			t.Errorf("enabled %t, marked as down %t: %s", enabled, forced, reason)
		}
	})
}

// Nova 7: with no valid host the server is in the state error on the dead host, is named, and keeps that from being given back no longer than it is off.
func TestNova7AServerThatNoHostTakes(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		b := newDeadBench(t, s)
		alone := s.stay(t)
		s.off(t, "compute-1")
		b.until("it is named", func() bool {
			b.ask()
			evidence, err := b.observe("compute-1")
			if err != nil {
				t.Fatal(err)
			}
			failed, _ := evidence.Members["compute-1"]["failed"].([]string)
			return len(failed) == 1 && strings.Contains(failed[0], "Nova found no valid host for it")
		})
		b.ask()
		if state, host := s.state(t, alone); state != "error" || host != "compute-1" || !slices.Equal(s.evacuations(t, alone), []string{"error"}) {
			t.Errorf("it is %s on %s, evacuations: %v", state, host, s.evacuations(t, alone))
		}
		s.on(t, "compute-1")
		b.back()
		if enabled, forced, reason := s.service(t, "compute-1"); !enabled || forced {
			t.Errorf("enabled %t, marked as down %t: %s", enabled, forced, reason)
		}
	})
}

// A host that was disabled before it died stays so when it is back, for its former reason.
func TestNova8ADisabledHostStaysDisabled(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		b := newDeadBench(t, s)
		id := s.boot(t, "web", "compute-1", "active")
		s.disable(t, "compute-1", "bad memory")
		s.off(t, "compute-1")
		b.gone(id)
		s.on(t, "compute-1")
		b.back()
		if enabled, forced, reason := s.service(t, "compute-1"); enabled || forced || reason != "bad memory" {
			t.Errorf("enabled %t, marked as down %t: %s", enabled, forced, reason)
		}
	})
}
