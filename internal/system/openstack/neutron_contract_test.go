package openstack_test

import (
	"slices"
	"strings"
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

// here reports whether the agent of a host is among holders.
func here(holders []string, host string) bool {
	return slices.ContainsFunc(holders, func(h string) bool { return h == host || strings.HasPrefix(h, host+"(") })
}

// An agent is emptied, gets nothing then, and is enabled again when that is taken back; what has moved stays.
func TestAnAgentIsEmptiedAndOpenedAgain(t *testing.T) {
	for role, short := range shorts {
		t.Run(role, func(t *testing.T) {
			on(t, func(t *testing.T, s site) {
				ids := []string{s.give(t, short, "a", "compute-1")}
				if short != "bgp" { // of which an agent has one speaker
					ids = append(ids, s.give(t, short, "b", "compute-1"))
				}
				b := newBench(t, s, v1alpha1.OpenStack{})
				b.role = role
				if v := b.judge("compute-1"); !slices.Equal(reasons(v), []string{"NotEmpty"}) || !needs(v) {
					t.Fatalf("before: %s", said(v))
				}
				b.until("the agent is empty", func() bool {
					v := b.turn("compute-1")
					for _, id := range ids {
						if holders := s.holders(t, short, id); v.Answer == eviction.Allowed && (len(holders) == 0 || here(holders, "compute-1")) {
							t.Errorf("it may go, and %s is on %v", id, holders)
						}
					}
					return v.Answer == eviction.Allowed
				})
				if up, description := s.enabled(t, short, "compute-1"); up || !strings.HasPrefix(description, "Usher (policy cloud/usher): ") {
					t.Errorf("it is enabled: %t, %s", up, description)
				}
				var undone eviction.Undone
				b.until("it is taken back", func() bool {
					var err error
					if undone, err = b.undo("compute-1"); err != nil {
						t.Fatal(err)
					}
					return undone.Done
				})
				if up, description := s.enabled(t, short, "compute-1"); !up || description != "" || !strings.Contains(undone.Left, "what has left compute-1 stays where it is") {
					t.Errorf("it is enabled: %t, %q; left: %s", up, description, undone.Left)
				}
			})
		})
	}
}

// Neutron 5: a router with HA counts as gone once it is active elsewhere, and as many agents have it as before.
func TestNeutron5ARouterWithHAFailsOver(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		id := s.give(t, "l3", "ha", "compute-1", "compute-2")
		b := newBench(t, s, v1alpha1.OpenStack{})
		b.role = "neutron-l3-agent"
		b.until("it is active on compute-1", func() bool { return slices.Contains(s.holders(t, "l3", id), "compute-1(active)") })
		b.until("the agent is empty", func() bool { return b.turn("compute-1").Answer == eviction.Allowed })
		holders := s.holders(t, "l3", id)
		if len(holders) != 2 || here(holders, "compute-1") || !slices.ContainsFunc(holders, func(h string) bool { return strings.HasSuffix(h, "(active)") }) {
			t.Errorf("it is on %v", holders)
		}
		b.until("it is taken back", func() bool {
			undone, err := b.undo("compute-1")
			return err == nil && undone.Done
		})
	})
}

// Neutron gives an agent one speaker. Where all others have one of their own, the host's is named with Neutron's words, and stays.
func TestAnAgentHasOneSpeaker(t *testing.T) {
	on(t, func(t *testing.T, s site) {
		id := s.give(t, "bgp", "a", "compute-1")
		s.give(t, "bgp", "b", "compute-2")
		s.give(t, "bgp", "c", "net-1")
		b := newBench(t, s, v1alpha1.OpenStack{})
		b.role = "neutron-bgp-agent"
		var v eviction.Verdict
		b.until("it is named", func() bool {
			v = b.turn("compute-1")
			return slices.Contains(reasons(v), "MoveFailed")
		})
		if words := strings.Join(said(v), "\n"); !strings.Contains(words, "is already associated to a BGP speaker") {
			t.Error(words)
		}
		if holders := s.holders(t, "bgp", id); !slices.Equal(holders, []string{"compute-1"}) {
			t.Errorf("it is on %v", holders)
		}
		b.until("it is taken back", func() bool {
			undone, err := b.undo("compute-1")
			return err == nil && undone.Done
		})
	})
}

// An eviction that is withdrawn midway leaves nothing without an agent, and the host's agent as it was.
func TestAnAgentIsWithdrawnMidway(t *testing.T) {
	for role, short := range shorts {
		t.Run(role, func(t *testing.T) {
			on(t, func(t *testing.T, s site) {
				id := s.give(t, short, "a", "compute-1")
				b := newBench(t, s, v1alpha1.OpenStack{})
				b.role = role
				for range 2 {
					b.turn("compute-1")
				}
				b.until("it is taken back", func() bool {
					undone, err := b.undo("compute-1")
					return err == nil && undone.Done
				})
				if up, description := s.enabled(t, short, "compute-1"); !up || description != "" {
					t.Errorf("it is enabled: %t, %q", up, description)
				}
				if holders := s.holders(t, short, id); !slices.Equal(holders, []string{"compute-1"}) {
					t.Errorf("it is on %v", holders)
				}
			})
		})
	}
}
