package openstack_test

import (
	"net/http"
	"strings"
	"testing"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/test/openstacksim"
)

// A host that was disabled before stays so, for its former reason, or for none that was given.
func TestADisabledHostStaysDisabled(t *testing.T) {
	for was, want := range map[string]string{"bad memory": "bad memory", "": "disabled, and no reason was given"} {
		l := newLoss(t)
		l.cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Enabled, h.Reason = false, was })
		for range 2 { // another client takes the mark off in between
			if err := l.evacuate(); err != nil {
				t.Fatal(err)
			}
			if h := l.cloud.Host("compute-1"); !h.Forced || !strings.HasSuffix(h.Reason, "; before: "+want) {
				t.Fatalf("%+v", h)
			}
			l.cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Forced = false })
		}
		if err := l.evacuate(); err != nil {
			t.Fatal(err)
		}
		l.cloud.Start("compute-1")
		for range 3 {
			if _, err := l.undoEvacuation(); err != nil {
				t.Fatal(err)
			}
		}
		if h := l.cloud.Host("compute-1"); h.Forced || h.Enabled || h.Reason != want {
			t.Errorf("%+v", h)
		}
	}
}

// A host is given back after its agents, of which those that never come back are named with what to do.
func TestAgentsComeBackFirst(t *testing.T) {
	l := newLoss(t, "active")
	l.cloud.AddAgents("compute-1=ovs,l3", "compute-2=ovs")
	l.cloud.ChangeAgent("l3", "compute-1", func(a *openstacksim.Agent) { a.Alive = false })
	for range 5 {
		if err := l.evacuate(); err != nil {
			t.Fatal(err)
		}
	}
	l.cloud.Start("compute-1")
	if _, err := l.undoEvacuation(); err == nil || !strings.Contains(err.Error(), "Neutron does not hear of its agents (openstack network agent delete ID takes one off that is not there any more): L3 agent") {
		t.Errorf("%v", err)
	}
	if h := l.cloud.Host("compute-1"); !h.Forced || h.Enabled {
		t.Errorf("%+v", h)
	}
	l.cloud.ChangeAgent("l3", "compute-1", func(a *openstacksim.Agent) { a.Alive = true })
	for range 3 {
		if _, err := l.undoEvacuation(); err != nil {
			t.Fatal(err)
		}
	}
	if h := l.cloud.Host("compute-1"); h.Forced || !h.Enabled {
		t.Errorf("%+v", h)
	}
}

// A host dies while it is emptied, and its maintenance ends before or after it is back: it gets servers again in the end.
func TestAHostDiesWhileItIsEmptied(t *testing.T) {
	for name, before := range map[string]bool{"it ends while the host is dead": true, "it ends after that": false} {
		l := newLoss(t, "stopped")
		l.cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Up = true })
		emptying := &bench{t: t, site: l.site, system: l.system, policy: l.policy, role: l.role}
		if err := emptying.prepare("compute-1"); err != nil {
			t.Fatal(err)
		}
		l.cloud.Die("compute-1")
		for range 3 {
			if err := l.evacuate(); err != nil {
				t.Fatal(err)
			}
		}
		end := func() {
			for undone := (eviction.Undone{}); !undone.Done; {
				var err error
				if undone, err = emptying.undo("compute-1"); err != nil {
					t.Fatal(err)
				}
			}
		}
		if before {
			end()
		}
		l.cloud.Start("compute-1")
		for undone := (eviction.Undone{}); !undone.Done; {
			var err error
			if undone, err = l.undoEvacuation(); err != nil {
				t.Fatal(err)
			}
		}
		if !before {
			if h := l.cloud.Host("compute-1"); h.Forced || h.Enabled {
				t.Errorf("%s: %+v", name, h)
			}
			end()
		}
		if h := l.cloud.Host("compute-1"); h.Forced || !h.Enabled {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

// Nova 2 and 9: what has ended is in the listing of all migrations alone, and the service of a dead host is never deleted, since Nova would not take the mark off
// the next one.
func TestNova9NoServiceIsDeleted(t *testing.T) {
	l := newLoss(t, "active", "stopped")
	l.cloud.TakeRequests()
	for range 5 {
		if err := l.evacuate(); err != nil {
			t.Fatal(err)
		}
	}
	l.cloud.Start("compute-1")
	for undone := (eviction.Undone{}); !undone.Done; {
		var err error
		if undone, err = l.undoEvacuation(); err != nil {
			t.Fatal(err)
		}
	}
	for _, request := range l.cloud.TakeRequests() {
		if strings.HasPrefix(request, http.MethodDelete) || strings.HasPrefix(request, http.MethodGet) && strings.Contains(request, "/servers/") && strings.HasSuffix(request, "/migrations") {
			t.Error(request)
		}
	}
}

// Policies of two namespaces care for one host, which dies while it is emptied, or marked as down, for the one and is evacuated for the other. Whichever is done
// first, it gets servers again in the end: the one does not give it back to what the other has taken back before.
func TestTwoNamespacesGiveAHostBack(t *testing.T) {
	for name, begin := range map[string]func(*loss) error{
		"it was emptied": func(l *loss) error {
			l.cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Up = true })
			return l.prepare("compute-1")
		},
		"it was evacuated, and another client has taken the mark off": func(l *loss) error {
			err := l.evacuate()
			l.cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Forced = false })
			return err
		},
	} {
		first := newLoss(t, "active")
		second := first.of(others["of another namespace"], func(*http.Request) {})
		if err := begin(&first); err != nil {
			t.Fatal(err)
		}
		first.cloud.Die("compute-1")
		for range 5 {
			if err := second.evacuate(); err != nil {
				t.Fatal(err)
			}
		}
		undo := first.undoEvacuation
		if strings.HasSuffix(name, "emptied") {
			undo = func() (eviction.Undone, error) { return first.undo("compute-1") }
		}
		for _, back := range []func() (eviction.Undone, error){undo, second.undoEvacuation} {
			for undone := (eviction.Undone{}); !undone.Done; {
				var err error
				if undone, err = back(); err != nil {
					t.Fatal(err)
				}
			}
			first.cloud.Start("compute-1")
		}
		if h := first.cloud.Host("compute-1"); h.Forced || !h.Enabled {
			t.Errorf("%s: %+v", name, h)
		}
	}
}
