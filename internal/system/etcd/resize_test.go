package etcd_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/etcd"
	"usher.sh/usher/test/etcdsim"
)

func resizable(sim *etcdsim.Cluster) system.Resizable {
	return sim.Open(maxLag, patience).(system.Resizable)
}

// listOf returns the list, and the entry of a name in it; nil: there is none.
func listOf(t testing.TB, s system.Resizable, name string) (memberset.Listing, *memberset.Entry) {
	t.Helper()
	list, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list.Entries, func(e memberset.Entry) bool { return slices.Contains(e.Addresses, etcdsim.PeerURL(name)) })
	if at < 0 {
		return list, nil
	}
	return list, &list.Entries[at]
}

// A member is taken in as a learner, gets its vote once it has caught up, and the leader hands over before it leaves.
func TestMembersComeAndGo(t *testing.T) {
	sim := three()
	for range 5 {
		sim.Write("w")
	}
	sim.Settle(2)
	s := resizable(sim)
	list, _ := listOf(t, s, "d")
	var said []string
	for range 10 {
		missing, err := s.Admit(t.Context(), list.Cluster, []string{etcdsim.PeerURL("d")})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(said, missing) {
			said = append(said, missing)
		}
		if len(said) == 2 {
			sim.Start("d")
		}
		sim.Settle(2)
	}
	_, d := listOf(t, s, "d")
	if d == nil || d.Name != "d" || !d.Whole {
		t.Fatalf("d is listed as %+v", d)
	}
	want := []string{"it is added as a learner", "it is on the list as " + d.ID + ", and has not started yet", "it has caught up as a learner, and its vote is asked for", ""}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	leader := sim.Leader()
	_, old := listOf(t, s, leader)
	missing, err := s.Expel(t.Context(), &old.MemberRegistration)
	if err != nil || !strings.Contains(missing, "it leads, and hands over to") {
		t.Fatalf("the leader leaves: %q, %v", missing, err)
	}
	sim.Settle(3)
	for range 2 { // asked for again, nothing happens
		if missing, err := s.Expel(t.Context(), &old.MemberRegistration); err != nil || missing != "" {
			t.Fatalf("it leaves: %q, %v", missing, err)
		}
		sim.Settle(3)
	}
	if _, still := listOf(t, s, leader); still != nil || sim.Leader() == leader || !sim.Serving() {
		t.Errorf("%s is listed as %+v; %s leads", leader, still, sim.Leader())
	}
}

func TestExpelIsRefused(t *testing.T) {
	for _, test := range []struct {
		name  string
		given func(sim *etcdsim.Cluster)
		want  string
	}{
		{"another is away", func(s *etcdsim.Cluster) { s.Kill("c"); s.Settle(3) }, "other voters are not healthy: c"},
		{"another is behind", func(s *etcdsim.Cluster) {
			s.Slow("c", 1)
			for range maxLag + 20 {
				s.Write("w")
			}
		}, "other voters are behind: c"},
		{"no agreement", func(s *etcdsim.Cluster) { s.Misbehave(etcdsim.URL("c"), etcdsim.Mistaken) }, "no leader answers"},
	} {
		t.Run(test.name, func(t *testing.T) {
			sim := etcdsim.New("a", "b", "c", "d", "e")
			sim.Settle(3)
			s := resizable(sim)
			_, a := listOf(t, s, "d")
			test.given(sim)
			sim.Settle(2)
			missing, err := s.Expel(t.Context(), &a.MemberRegistration)
			if err != nil || !strings.Contains(missing, test.want) {
				t.Errorf("%q, %v, want %q", missing, err, test.want)
			}
		})
	}
}

// Another cluster's list is not changed.
func TestAnotherClusterTakesNone(t *testing.T) {
	s := resizable(three())
	if _, err := s.Admit(t.Context(), "beef", []string{etcdsim.PeerURL("d")}); err == nil || !strings.Contains(err.Error(), "one of cluster beef") {
		t.Errorf("a member of another cluster is taken in: %v", err)
	}
}

// TestPropertyResizeCostsNothing grows and shrinks a cluster while members are killed and come back: no acknowledged write is lost, and the cluster serves
// whenever all that are on its list run.
func TestPropertyResizeCostsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sim := etcdsim.New("a", "b", "c")
		sim.Settle(3)
		s := resizable(sim)
		list, err := s.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names, next := []string{"a", "b", "c"}, byte('d')
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				if len(names) < 7 {
					names = append(names, string(next))
					next++
				}
			case 1:
				name := rapid.SampledFrom(names).Draw(t, "killed")
				sim.Kill(name)
			case 2:
				for _, name := range names {
					sim.Start(name)
				}
			case 3:
				name := rapid.SampledFrom(names).Draw(t, "leaves")
				now, err := s.List(t.Context())
				if err != nil {
					continue
				}
				for i := range now.Entries {
					if e := &now.Entries[i]; e.Name == name {
						_, _ = s.Expel(t.Context(), &e.MemberRegistration)
					}
				}
			case 4:
				name := rapid.SampledFrom(names).Draw(t, "joins")
				_, _ = s.Admit(t.Context(), list.Cluster, []string{etcdsim.PeerURL(name)})
			default:
				sim.Write(string('0' + next))
			}
			sim.Settle(2)
		}
		for _, name := range names {
			sim.Start(name)
		}
		sim.Settle(10)
		if lost := sim.Lost(); len(lost) > 0 || !sim.Serving() {
			t.Fatalf("lost %v, serving %t", lost, sim.Serving())
		}
	})
}

func TestWhatMembersAreTold(t *testing.T) {
	kind := etcd.Kind().Set
	pod := &corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"--peer-cert-file=/tls/tls.crt"}}}}
	spec := &v1alpha1.System{Etcd: &v1alpha1.Etcd{Access: v1alpha1.Access{Service: &v1alpha1.Service{Name: "kv", Port: 2379, Scheme: "http"}}}}
	start := &memberset.Start{Set: "u", Namespace: "shop", ID: "kv-member-1", First: true, Peers: []memberset.Peer{
		{ID: "kv-member-1", Addresses: kind.Addresses(pod, "kv-member-1", "shop")}, {ID: "kv-member-2", Addresses: kind.Addresses(pod, "kv-member-2", "shop")},
	}}
	told := map[string]string{}
	for _, v := range kind.Environment(pod, spec, start) {
		told[v.Name] = v.Value
	}
	want := map[string]string{
		"ETCD_NAME": "kv-member-1", "ETCD_INITIAL_CLUSTER_STATE": "new", "ETCD_INITIAL_CLUSTER_TOKEN": "u",
		"ETCD_INITIAL_CLUSTER":             "kv-member-1=https://kv-member-1.shop.svc:2380,kv-member-2=https://kv-member-2.shop.svc:2380",
		"ETCD_INITIAL_ADVERTISE_PEER_URLS": "https://kv-member-1.shop.svc:2380", "ETCD_LISTEN_PEER_URLS": "https://0.0.0.0:2380",
		"ETCD_ADVERTISE_CLIENT_URLS": "http://kv-member-1.shop.svc:2379", "ETCD_LISTEN_CLIENT_URLS": "http://0.0.0.0:2379",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}
