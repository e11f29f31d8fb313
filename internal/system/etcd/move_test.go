package etcd_test

import (
	"errors"
	"strings"
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/etcd"
	"usher.sh/usher/test/etcdsim"
)

func step(member string) eviction.Preparation {
	return eviction.Preparation{Name: etcd.MoveLeader, Member: v1alpha1.MemberRef{ID: member}}
}

func TestLeadershipGoesToTheMostAdvanced(t *testing.T) {
	sim := three()
	l, slow, quick := roles(sim)
	for range 5 {
		sim.Write("w")
	}
	sim.Slow(slow, 1)
	sim.Settle(2)
	s := sim.Open(maxLag, patience)
	if _, err := s.Prepare(t.Context(), step(l)); err != nil {
		t.Fatal(err)
	}
	if sim.Leader() != quick {
		t.Errorf("%s leads, and %s is the most advanced", sim.Leader(), quick)
	}
	if _, err := s.Prepare(t.Context(), step(l)); err != nil || sim.Leader() != quick {
		t.Errorf("asked again: %v, and %s leads", err, sim.Leader())
	}
	if undone, err := s.Undo(t.Context(), step(l)); !undone.Done || err != nil || sim.Leader() != quick {
		t.Errorf("undone: %v, %v, and %s leads", undone, err, sim.Leader())
	}
}

func TestLeadershipStays(t *testing.T) {
	for _, c := range []struct {
		name     string
		given    func(sim *etcdsim.Cluster, l, n, last string)
		step     func(l string) eviction.Preparation
		says     string
		terminal bool
	}{
		{name: "no member to hand over to", says: "no other voter is healthy and caught up", given: func(s *etcdsim.Cluster, l, n, last string) {
			s.Slow(n, 1)
			for range 50 {
				s.Write("w")
			}
			s.Settle(2)
			s.Kill(last)
		}},
		{name: "no agreement", says: "no leader that a quorum agrees on", given: func(s *etcdsim.Cluster, _, n, _ string) {
			s.Misbehave(etcdsim.URL(n), etcdsim.Mistaken)
		}},
		{name: "the leader does not answer", says: "it leads, and does not answer at", given: func(s *etcdsim.Cluster, l, _, _ string) { s.Hide(l) }},
		{name: "no quorum", says: "no endpoint gives a list of members", given: func(s *etcdsim.Cluster, _, n, last string) {
			s.Kill(n)
			s.Kill(last)
		}},
		{name: "not a member", says: "no member of that name", step: func(string) eviction.Preparation { return step("x") }},
		{name: "no such step", says: "etcd has no step Fly", terminal: true, step: func(l string) eviction.Preparation {
			return eviction.Preparation{Name: "Fly", Member: v1alpha1.MemberRef{ID: l}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim := three()
			l, n, last := roles(sim)
			if c.given != nil {
				c.given(sim, l, n, last)
			}
			p := step(l)
			if c.step != nil {
				p = c.step(l)
			}
			_, err := sim.Open(maxLag, patience).Prepare(t.Context(), p)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			if errors.Is(err, system.ErrTerminal) != c.terminal {
				t.Errorf("terminal: %v", err)
			}
		})
	}
}
