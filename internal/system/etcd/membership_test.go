package etcd_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/etcd"
	"usher.sh/usher/test/etcdsim"
)

func membership(sim *etcdsim.Cluster) system.Membership {
	return sim.Open(maxLag, patience).(system.Membership)
}

func listed(t testing.TB, m system.Membership, name string, predecessor *v1alpha1.MemberRegistration) system.Listing {
	t.Helper()
	listing, err := m.Listed(t.Context(), system.Member{MemberRef: v1alpha1.MemberRef{ID: name}}, predecessor)
	if err != nil {
		t.Fatal(err)
	}
	return listing
}

// A member whose disk is lost leaves, its successor of the same name joins without a vote, and votes once it has caught up.
func TestSuccessorTakesThePlace(t *testing.T) {
	sim := three()
	_, lost, _ := roles(sim)
	for range 5 {
		sim.Write("w")
	}
	sim.Settle(2)
	m := membership(sim)
	old := listed(t, m, lost, nil).Member
	if old == nil || len(old.Addresses) != 1 {
		t.Fatalf("%s is listed as %+v", lost, old)
	}
	if missing, err := m.Leave(t.Context(), system.Member{}, old); err != nil || !strings.Contains(missing, "it runs") {
		t.Fatalf("leaving while it runs: %q, %v", missing, err)
	}
	sim.Wipe(lost)
	for range 2 { // asked for again, nothing happens
		if missing, err := m.Leave(t.Context(), system.Member{}, old); err != nil || missing != "" {
			t.Fatalf("leaving: %q, %v", missing, err)
		}
	}
	if got := listed(t, m, lost, old); got.Predecessor || got.Successor != nil {
		t.Fatalf("after it has left: %+v", got)
	}
	var said []string
	for range 8 {
		missing, err := m.Join(t.Context(), system.Member{}, old)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(said, missing) {
			said = append(said, missing)
		}
		if len(said) == 2 {
			sim.Start(lost)
		}
		sim.Settle(2)
	}
	got := listed(t, m, lost, old)
	if got.Predecessor || !got.Joined || got.Successor.ID == old.ID || got.Member == nil || got.Member.ID != got.Successor.ID {
		t.Errorf("in the end: %+v", got)
	}
	want := []string{
		"it is added as a learner", "it is on the list as " + got.Successor.ID + ", and has not started yet",
		"it has caught up as a learner, and its vote is asked for", "",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	if lost := sim.Lost(); len(lost) > 0 {
		t.Errorf("lost: %v", lost)
	}
}

// What another cluster answers says nothing of a member.
func TestListedByAnotherCluster(t *testing.T) {
	sim := three()
	_, lost, _ := roles(sim)
	m := membership(sim)
	old := *listed(t, m, lost, nil).Member
	old.Cluster = "1"
	for name, ask := range map[string]func() error{
		"listed": func() error {
			_, err := m.Listed(t.Context(), system.Member{MemberRef: v1alpha1.MemberRef{ID: lost}}, &old)
			return err
		},
		"leave": func() error { _, err := m.Leave(t.Context(), system.Member{}, &old); return err },
		"join":  func() error { _, err := m.Join(t.Context(), system.Member{}, &old); return err },
	} {
		if err := ask(); !errors.Is(err, system.ErrOtherSystem) || !strings.Contains(err.Error(), "the member was one of cluster 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	sim.Misbehave(etcdsim.URL(lost), etcdsim.Stranger)
	if _, err := m.Listed(t.Context(), system.Member{MemberRef: v1alpha1.MemberRef{ID: lost}}, nil); err == nil || !strings.Contains(err.Error(), "lead to two clusters") {
		t.Errorf("two clusters: %v", err)
	}
}

func TestLeaveIsRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		given func(sim *etcdsim.Cluster)
		says  string
	}{
		{"two are away", func(s *etcdsim.Cluster) {
			s.Kill("c")
			s.Kill("d")
		}, "no endpoint gives a list of members"},
		{"one is out of reach", func(s *etcdsim.Cluster) { s.Hide("c") }, "other voters are not healthy: c (does not answer"},
		{"one is behind", func(s *etcdsim.Cluster) {
			s.Slow("c", 1)
			for range 30 {
				s.Write("w")
			}
		}, "other voters are behind: c (28 entries)"},
		{"one is a little behind", func(s *etcdsim.Cluster) {
			s.Slow("c", 8)
			for range 30 {
				s.Write("w")
			}
		}, "other voters are behind: c"},
		{"no agreement", func(s *etcdsim.Cluster) { s.Misbehave(etcdsim.URL("c"), etcdsim.Mistaken) }, "no leader answers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim := etcdsim.New("a", "b", "c", "d", "e")
			m := membership(sim)
			old := listed(t, m, "b", nil).Member
			sim.Wipe("b")
			sim.Settle(2)
			c.given(sim)
			sim.Settle(2)
			missing, err := m.Leave(t.Context(), system.Member{}, old)
			if err != nil {
				missing = err.Error()
			}
			if !strings.Contains(missing, c.says) {
				t.Errorf("it says %q", missing)
			}
		})
	}
}

// Whatever happens to the cluster, and whatever its members say: to take a member off the list, and to put its successor on it, costs no
// acknowledged write and no quorum. And where the member's disk is lost and the others are well again, its successor votes in the end.
func TestPropertyReplacedMembersCostNothing(t *testing.T) {
	left, joined := 0, 0
	property := func(rt *rapid.T) {
		h := newHistory(rt)
		m := membership(h.sim)
		name := h.member(rt)
		old := listed(t, m, name, nil).Member
		h.some(rt)
		lost := rapid.Bool().Draw(rt, "its disk is lost")
		if costs, _ := h.sim.WouldLoseWithDisk(name); costs { // it has the last copy, or is needed
			lost = false
		}
		if lost {
			h.sim.Wipe(name)
		}
		h.some(rt)
		if h.leave(rt, m, name, old) {
			left++
		} else if !lost {
			return
		}
		h.some(rt)
		m = membership(h.sim) // whose endpoints are those of all that were added
		_, _ = m.Join(context.Background(), system.Member{}, old)
		h.some(rt)
		for range 8 {
			h.heal()
			for _, other := range h.names {
				h.sim.GiveVote(other) // etcd takes one learner at a time
			}
			if !lost || h.leave(rt, m, name, old) {
				_, _ = m.Join(context.Background(), system.Member{}, old)
			}
		}
		if lost := h.sim.Lost(); len(lost) > 0 {
			rt.Fatalf("lost: %v", lost)
		}
		if !lost || !h.sim.Serving() {
			return
		}
		if missing, err := m.Join(context.Background(), system.Member{}, old); missing != "" || err != nil {
			rt.Fatalf("all is well, and its successor has no vote: %q, %v", missing, err)
		}
		joined++
	}
	for range 10 { // one input in 16 lets the member leave before the others are healed
		rapid.Check(t, property)
	}
	t.Logf("%d left, %d joined", left, joined)
	if left == 0 || joined == 0 {
		t.Error("the inputs show nothing")
	}
}

// leave asks for a member to leave, and reports whether it is off the list. It must not cost anything.
func (h *history) leave(rt *rapid.T, m system.Membership, name string, old *v1alpha1.MemberRegistration) bool {
	before, err := m.Listed(context.Background(), system.Member{MemberRef: v1alpha1.MemberRef{ID: name}}, old)
	if err == nil && !before.Predecessor {
		return true
	}
	costs, why := h.sim.WouldLose(name)
	missing, err := m.Leave(context.Background(), system.Member{}, old)
	if missing != "" || err != nil {
		return false
	}
	if costs {
		rt.Fatalf("%s has left: %s", name, why)
	}
	return true
}

// some makes a few moves at random.
func (h *history) some(rt *rapid.T) {
	moves := h.moves()
	names := slices.Sorted(maps.Keys(moves))
	for range rapid.IntRange(0, 6).Draw(rt, "moves") {
		moves[rapid.SampledFrom(names).Draw(rt, "move")](rt)
	}
}

func TestTemplatesThatJoin(t *testing.T) {
	for _, c := range []struct {
		name string
		pod  corev1.Container
		want bool
	}{
		{"nothing", corev1.Container{Command: []string{"etcd", "--name=$(POD)"}}, false},
		{"new", corev1.Container{Args: []string{"--initial-cluster-state=new"}}, false},
		{"one argument", corev1.Container{Command: []string{"etcd"}, Args: []string{"--initial-cluster-state=existing"}}, true},
		{"two arguments", corev1.Container{Command: []string{"etcd", "-initial-cluster-state", "existing", "--name=x"}}, true},
		{"a script", corev1.Container{Command: []string{"sh", "-c"}, Args: []string{"exec etcd --name $NAME \\\n  --initial-cluster-state \"existing\" \\\n --x"}}, true},
		{"a longer word", corev1.Container{Args: []string{"--initial-cluster-state=existing-not"}}, false},
		{"a variable", corev1.Container{Env: []corev1.EnvVar{{Name: "ETCD_INITIAL_CLUSTER_STATE", Value: "existing"}}}, true},
		{"an argument after the variable", corev1.Container{Args: []string{"--initial-cluster-state=new"}, Env: []corev1.EnvVar{{Name: "ETCD_INITIAL_CLUSTER_STATE", Value: "existing"}}}, false},
		{"the last argument", corev1.Container{Args: []string{"--initial-cluster-state=new", "--initial-cluster-state=existing"}}, true},
		{"the last argument has no value", corev1.Container{Args: []string{"--initial-cluster-state"}}, false},
		{"another variable", corev1.Container{Env: []corev1.EnvVar{{Name: "ETCD_INITIAL_CLUSTER_STATE", Value: "new"}}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			refusal, remedy := etcd.Kind().SuccessionOf(nil).Refuses(&corev1.PodSpec{Containers: []corev1.Container{{Name: "sidecar"}, c.pod}})
			if got := refusal == ""; got != c.want || (refusal == "") != (remedy == "") {
				t.Errorf("%q, %q", refusal, remedy)
			}
		})
	}
}
