package openstack_test

import (
	"slices"
	"strings"
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

// A host is emptied server by server, each as its state allows, and gets servers again when the eviction is withdrawn. What has moved stays.
func TestAHostIsEmptiedAndOpenedAgain(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		b := newBench(t, s, v1alpha1.OpenStack{})
		ids := map[string]string{}
		for _, name := range []string{"web-1", "web-2", "web-3"} {
			ids[name] = s.boot(t, name, "compute-1", "active")
		}
		ids["batch"], ids["held"] = s.boot(t, "batch", "compute-1", "stopped"), s.boot(t, "held", "compute-1", "paused")
		if v := b.judge("compute-1"); !slices.Equal(reasons(v), []string{"NotEmpty"}) || !needs(v) {
			t.Fatalf("before: %s", said(v))
		}
		b.until("compute-1 is empty", func() bool {
			v := b.turn("compute-1")
			for name, id := range ids {
				if _, host := s.state(t, id); v.Answer == eviction.Allowed && host == "compute-1" {
					t.Errorf("%s is there while compute-1 may go", name)
				}
			}
			return v.Answer == eviction.Allowed
		})
		for name, want := range map[string]string{"web-1": "active", "batch": "stopped", "held": "paused"} {
			if state, host := s.state(t, ids[name]); state != want || host == "compute-1" {
				t.Errorf("%s is %s on %s", name, state, host)
			}
		}
		var undone eviction.Undone
		b.until("it is opened again", func() bool {
			var err error
			if undone, err = b.undo("compute-1"); err != nil {
				t.Fatal(err)
			}
			return undone.Done
		})
		if !strings.Contains(undone.Left, ids["web-1"]+" (on compute-") || strings.Contains(undone.Left, "disabled") {
			t.Errorf("left: %s", undone.Left)
		}
		if v := b.judge("compute-1"); v.Answer == eviction.Allowed {
			t.Error("it may go, and gets servers again")
		}
		if evidence, err := b.observe("compute-1"); err != nil || evidence.Members["compute-1"]["disabled"] != false {
			t.Errorf("%+v, %v", evidence, err)
		}
	})
}

// Nova 1 of what was observed: a request for a server that has nowhere to go is accepted with 202, and only the migration shows what came of it. Others
// are moved meanwhile.
func TestNova1AcceptedAndNowhereToGo(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		b := newBench(t, s, v1alpha1.OpenStack{})
		alone := s.stay(t)
		other := s.boot(t, "other", "compute-1", "active")
		b.until("one is left, and named", func() bool {
			v := b.turn("compute-1")
			if v.Answer == eviction.Allowed {
				t.Fatal("it may go")
			}
			_, host := s.state(t, other)
			return host != "compute-1" && slices.Contains(reasons(v), "MigrationFailed") && strings.Contains(strings.Join(said(v), "\n"), "Nova found no valid host for it")
		})
		if state, host := s.state(t, alone); state != "active" || host != "compute-1" {
			t.Errorf("it is %s on %s", state, host)
		}
	})
}

// Nova 3: a suspended server is not moved, and is named with what to do; when that is done, it is.
func TestNova3SuspendedServersAreNamed(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		b := newBench(t, s, v1alpha1.OpenStack{})
		id := s.boot(t, "asleep", "compute-1", "suspended")
		var v eviction.Verdict
		b.until("it is named", func() bool {
			v = b.turn("compute-1")
			return slices.Contains(reasons(v), "ServersStuck")
		})
		if words := strings.Join(said(v), "\n"); !strings.Contains(words, "openstack server resume "+id) {
			t.Error(words)
		}
		if needs(v) {
			t.Error("Nova is asked again and again for what it does not do")
		}
		s.resume(t, id)
		b.until("compute-1 is empty", func() bool { return b.turn("compute-1").Answer == eviction.Allowed })
	})
}

// An eviction that is withdrawn midway: what waits is called off, what runs ends, and no server is left between two hosts.
func TestWithdrawnMidway(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		b := newBench(t, s, v1alpha1.OpenStack{})
		ids := []string{s.boot(t, "a-web", "compute-1", "active"), s.boot(t, "b-web", "compute-1", "active"), s.boot(t, "c-web", "compute-1", "active"), s.boot(t, "d-batch", "compute-1", "stopped")}
		b.until("servers are on their way", func() bool {
			b.turn("compute-1")
			evidence, err := b.observe("compute-1")
			moving, _ := evidence.Members["compute-1"]["moving"].([]string)
			return err == nil && len(moving) > 0
		})
		b.until("it is taken back", func() bool {
			undone, err := b.undo("compute-1")
			if err != nil && !strings.Contains(err.Error(), "waiting for what runs to end") && !strings.Contains(err.Error(), "Cannot abort") {
				t.Fatal(err)
			}
			return undone.Done
		})
		for _, id := range ids {
			if state, _ := s.state(t, id); state != "active" && state != "stopped" {
				t.Errorf("%s is %s", id, state)
			}
		}
		if _, host := s.state(t, ids[3]); host != "compute-1" {
			t.Error("the last one was moved")
		}
	})
}
