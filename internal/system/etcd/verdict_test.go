package etcd_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system/etcd"
	"usher.sh/usher/test/etcdsim"
)

func three() *etcdsim.Cluster { return etcdsim.New("a", "b", "c") }

// leader returns the names of the leader and of two others, the first of which has the lowest id of them.
func roles(sim *etcdsim.Cluster) (leader, next, last string) {
	leader = sim.Leader()
	for _, n := range []string{"a", "b", "c"} {
		switch {
		case n == leader:
		case next == "":
			next = n
		default:
			last = n
		}
	}
	return leader, next, last
}

func TestEvictVerdicts(t *testing.T) {
	for _, c := range []struct {
		name    string
		given   func(*etcdsim.Cluster) (judged string)
		sim     *etcdsim.Cluster
		want    eviction.Answer
		reasons []string
		needed  []string
	}{
		{name: "a follower of three", want: eviction.Allowed, given: func(s *etcdsim.Cluster) string {
			_, n, _ := roles(s)
			return n
		}},
		{
			name: "the leader of three", want: eviction.Blocked, reasons: []string{"LeadsCluster"}, needed: []string{etcd.MoveLeader},
			given: func(s *etcdsim.Cluster) string { return s.Leader() },
		},
		{name: "a follower that is down, of three", want: eviction.Allowed, given: func(s *etcdsim.Cluster) string {
			_, n, _ := roles(s)
			s.Kill(n)
			return n
		}},
		{
			name: "a follower while the other is down", want: eviction.Blocked, reasons: []string{"QuorumAtRisk", "OtherVoterUnhealthy"},
			given: func(s *etcdsim.Cluster) string {
				_, n, l := roles(s)
				s.Kill(l)
				return n
			},
		},
		{
			name: "the leader while a follower is down", want: eviction.Blocked,
			reasons: []string{"QuorumAtRisk", "OtherVoterUnhealthy", "LeadsCluster"},
			given: func(s *etcdsim.Cluster) string {
				l, n, _ := roles(s)
				s.Kill(n)
				return l
			},
		},
		{
			name: "a follower of five while another is down", sim: etcdsim.New("a", "b", "c", "d", "e"), want: eviction.Blocked,
			reasons: []string{"OtherVoterUnhealthy"},
			given: func(s *etcdsim.Cluster) string {
				_, n, l := roles(s)
				s.Kill(l)
				return n
			},
		},
		{
			name: "a follower that is cut off", want: eviction.Allowed,
			given: func(s *etcdsim.Cluster) string {
				_, n, _ := roles(s)
				s.Island(1, n)
				s.Settle(3)
				return n
			},
		},
		{
			name: "a follower while the other is cut off", want: eviction.Blocked, reasons: []string{"QuorumAtRisk", "OtherVoterUnhealthy"},
			given: func(s *etcdsim.Cluster) string {
				_, n, l := roles(s)
				s.Island(1, l)
				s.Settle(3)
				return n
			},
		},
		{
			name: "a follower while the other is behind", want: eviction.Blocked, reasons: []string{"QuorumAtRisk", "OtherVoterBehind"},
			given: func(s *etcdsim.Cluster) string {
				_, n, l := roles(s)
				s.Slow(l, 1)
				for range 20 {
					s.Write("w")
				}
				s.Tick()
				return n
			},
		},
		{
			name: "the follower that is behind", want: eviction.Allowed,
			given: func(s *etcdsim.Cluster) string {
				_, _, l := roles(s)
				s.Slow(l, 1)
				for range 20 {
					s.Write("w")
				}
				s.Tick()
				return l
			},
		},
		{
			name: "no leader yet after one was lost", want: eviction.Blocked, reasons: []string{eviction.NoEvidence},
			given: func(s *etcdsim.Cluster) string {
				l, n, _ := roles(s)
				s.Kill(l)
				s.Tick()
				return n
			},
		},
		{
			name: "a learner", want: eviction.Allowed,
			given: func(s *etcdsim.Cluster) string {
				s.Add("d", true)
				s.Settle(2)
				return "d"
			},
		},
		{
			name: "a learner while a voter is down", want: eviction.Allowed,
			given: func(s *etcdsim.Cluster) string {
				s.Add("d", true)
				s.Settle(2)
				_, n, _ := roles(s)
				s.Kill(n)
				return "d"
			},
		},
		{
			name: "a voter while a learner is down", want: eviction.Allowed,
			given: func(s *etcdsim.Cluster) string {
				s.Add("d", true)
				s.Settle(2)
				s.Kill("d")
				_, n, _ := roles(s)
				return n
			},
		},
		{
			name: "the only member", sim: etcdsim.New("a"), want: eviction.Never,
			reasons: []string{"NoQuorumPossible", "QuorumAtRisk", "LeadsCluster"}, given: func(*etcdsim.Cluster) string { return "a" },
		},
		{
			name: "one of two", sim: etcdsim.New("a", "b"), want: eviction.Never, reasons: []string{"NoQuorumPossible", "QuorumAtRisk"},
			given: func(s *etcdsim.Cluster) string {
				_, n, _ := roles(s)
				return n
			},
		},
		{
			name: "one of two while the third is learning", sim: etcdsim.New("a", "b"), want: eviction.Blocked, reasons: []string{"QuorumAtRisk"},
			given: func(s *etcdsim.Cluster) string {
				s.Add("d", true)
				s.Settle(2)
				_, n, _ := roles(s)
				return n
			},
		},
		{
			name: "CORRUPT", want: eviction.Blocked, reasons: []string{"DataCorrupt"},
			given: func(s *etcdsim.Cluster) string {
				l, n, _ := roles(s)
				s.Raise(l, etcd.Corrupt)
				return n
			},
		},
		{name: "NOSPACE", want: eviction.Allowed, given: func(s *etcdsim.Cluster) string {
			l, n, _ := roles(s)
			s.Raise(l, etcd.NoSpace)
			return n
		}},
		{
			name: "no member gives the alarms", want: eviction.Blocked, reasons: []string{eviction.FactMissing},
			given: func(s *etcdsim.Cluster) string {
				for _, url := range s.Endpoints() {
					s.Misbehave(url, etcdsim.Deaf)
				}
				_, n, _ := roles(s)
				return n
			},
		},
		{
			name: "one member gives no alarms", want: eviction.Allowed,
			given: func(s *etcdsim.Cluster) string {
				s.Misbehave(etcdsim.URL("a"), etcdsim.Deaf)
				_, n, _ := roles(s)
				return n
			},
		},
		{
			name: "a voter that names another leader", want: eviction.Blocked,
			reasons: []string{"LeaderUnknown", "QuorumAtRisk", "OtherVoterUnhealthy", "LeadsCluster"}, // l names n
			given: func(s *etcdsim.Cluster) string {
				_, n, l := roles(s)
				s.Misbehave(etcdsim.URL(l), etcdsim.Mistaken)
				return n
			},
		},
		{
			name: "another cluster answers for a voter", want: eviction.Blocked, reasons: []string{"QuorumAtRisk", "OtherVoterUnhealthy"},
			given: func(s *etcdsim.Cluster) string {
				_, n, _ := roles(s)
				s.Misbehave(etcdsim.URL("c"), etcdsim.Stranger)
				if n == "c" {
					n = "b"
				}
				return n
			},
		},
		{
			name: "the leader does not answer us", want: eviction.Blocked, reasons: []string{"QuorumAtRisk", "OtherVoterUnhealthy"},
			given: func(s *etcdsim.Cluster) string {
				l, n, _ := roles(s)
				s.Hide(l)
				return n
			},
		},
		{
			name: "a voter was added and has not started", want: eviction.Blocked, reasons: []string{"QuorumAtRisk", "OtherVoterUnhealthy"},
			given: func(s *etcdsim.Cluster) string {
				_, n, _ := roles(s)
				s.Add("d", false)
				s.Kill("d")
				s.Settle(2)
				return n
			},
		},
		{
			name: "a pod that is no member", want: eviction.Blocked, reasons: []string{eviction.MemberUnknown},
			given: func(*etcdsim.Cluster) string { return "x" },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim := c.sim
			if sim == nil {
				sim = three()
			}
			judged := c.given(sim)
			v := newJudge(t, sim).evict(t, judged)
			if v.Answer != c.want {
				t.Errorf("answer %s, want %s: %+v", v.Answer, c.want, v.Blockers)
			}
			if diff := cmp.Diff(c.reasons, reasons(v)); diff != "" {
				t.Errorf("reasons (-want +got):\n%s%+v", diff, v.Blockers)
			}
			if diff := cmp.Diff(c.needed, names(v.Needed)); diff != "" {
				t.Errorf("needed (-want +got):\n%s", diff)
			}
			for _, b := range v.Blockers {
				if b.Message == "" || strings.Contains(b.Message, "{{") || strings.Contains(b.Remedy, "{{") {
					t.Errorf("message of %s: %q, remedy %q", b.Reason, b.Message, b.Remedy)
				}
			}
		})
	}
}

func TestReplaceVerdicts(t *testing.T) {
	for _, c := range []struct {
		name    string
		sim     *etcdsim.Cluster
		given   func(*etcdsim.Cluster) string
		want    eviction.Answer
		reasons []string
	}{
		{name: "a member whose disk is lost", want: eviction.Allowed, given: func(s *etcdsim.Cluster) string {
			_, n, _ := roles(s)
			s.Wipe(n)
			return n
		}},
		{
			name: "a member while another is down", want: eviction.Blocked, reasons: []string{"QuorumAtRisk", "OtherVoterUnhealthy"},
			given: func(s *etcdsim.Cluster) string {
				_, n, l := roles(s)
				s.Kill(l)
				return n
			},
		},
		{name: "one of five while another is down", sim: etcdsim.New("a", "b", "c", "d", "e"), want: eviction.Blocked, reasons: []string{"OtherVoterUnhealthy"}, given: func(s *etcdsim.Cluster) string {
			_, n, l := roles(s)
			s.Kill(l)
			return n
		}},
		{name: "the one that is corrupt", want: eviction.Allowed, given: func(s *etcdsim.Cluster) string {
			_, n, _ := roles(s)
			s.Raise(n, etcd.Corrupt)
			return n
		}},
		{
			name: "one that may be the only one that is right", want: eviction.Blocked, reasons: []string{"DataCorrupt"},
			given: func(s *etcdsim.Cluster) string {
				_, n, l := roles(s)
				s.Raise(l, etcd.Corrupt)
				return n
			},
		},
		{
			name: "the only member", sim: etcdsim.New("a"), want: eviction.Never, reasons: []string{"NoQuorumPossible", "QuorumAtRisk"},
			given: func(*etcdsim.Cluster) string { return "a" },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim := c.sim
			if sim == nil {
				sim = three()
			}
			judged := c.given(sim)
			v := newJudge(t, sim).replace(t, judged)
			if v.Answer != c.want {
				t.Errorf("answer %s, want %s", v.Answer, c.want)
			}
			if diff := cmp.Diff(c.reasons, reasons(v)); diff != "" {
				t.Errorf("reasons (-want +got):\n%s%+v", diff, v.Blockers)
			}
		})
	}
}

// What a person reads at night is tested word for word once.
func TestWordsOfARefusal(t *testing.T) {
	sim := three()
	l, _, last := roles(sim)
	sim.Kill(last)
	v := newJudge(t, sim).evict(t, l)
	var said []string
	for _, b := range v.Blockers {
		said = append(said, b.Message)
	}
	want := []string{
		"a quorum is 2 of 3 voters; without " + l + ", healthy and caught up: 1; waiting for the others",
		"waiting for other voters to be healthy: " + last + " (does not answer at http://" + last + ":2379: connection refused)",
		l + " leads the cluster; waiting for another member to lead",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNoMemberLeavesWhileTheLeadIsHandedOver: the evidence is from before, and says that another member leads.
func TestNoMemberLeavesWhileTheLeadIsHandedOver(t *testing.T) {
	sim := three()
	leader, follower, _ := roles(sim)
	j := newJudge(t, sim)
	in := j.input(j.observe(t), follower)
	if v := eviction.Judge(in); v.Answer != eviction.Allowed {
		t.Fatalf("a follower: %v %v", v.Answer, reasons(v))
	}
	other := &snapshot.Pod{Namespace: "db", Name: leader, UID: "uid-of-the-leader", Labels: map[string]string{"app": "etcd"}}
	in.Peers = []*snapshot.Pod{other, in.Pod}
	for _, state := range []v1alpha1.PreparationState{v1alpha1.PreparationBegun, v1alpha1.PreparationUndoing} {
		in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{{
			MemberRef: v1alpha1.MemberRef{ID: leader, PodName: other.Name, PodUID: other.UID}, Name: etcd.MoveLeader, StartTime: metav1.NewTime(now), LastRequestTime: metav1.NewTime(now), State: state,
		}}
		if v := eviction.Judge(in); !slices.Contains(reasons(v), "AnotherHandsOver") {
			t.Errorf("a follower while the lead is handed over (%s): %v %v", state, v.Answer, reasons(v))
		}
	}
}
