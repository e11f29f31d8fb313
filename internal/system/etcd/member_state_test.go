package etcd

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sound is a cluster in which all members are healthy; member 1 leads.
func sound() *clusterRead {
	list := Membership{Cluster: 9, By: 1, Members: []Member{
		{ID: 1, Name: "a", ClientURLs: []string{"http://a"}},
		{ID: 2, Name: "b", ClientURLs: []string{"http://b"}},
		{ID: 3, Name: "c", ClientURLs: []string{"http://c"}},
	}}
	l := &clusterRead{list: list}
	for _, m := range list.Members {
		own := list
		own.By = m.ID
		l.said = append(l.said, response{url: m.ClientURLs[0], list: own, status: Status{
			Cluster: 9, Member: m.ID, Leader: 1, Term: 5, Committed: 100, Applied: 100,
		}})
	}
	return l
}

func TestStandings(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*clusterRead)
		why    []string // of a, b, c
		leader string   // "" unless agreed
	}{
		{name: "all is well", change: func(*clusterRead) {}, why: []string{"", "", ""}, leader: "a"},
		{name: "does not reach the quorum", leader: "a", why: []string{"", "does not reach the quorum: time is up", ""}, change: func(l *clusterRead) {
			l.said[1].listErr = errors.New("time is up")
		}},
		{name: "an older term", leader: "a", why: []string{"", "follows a in term 4, and the quorum a in term 5", ""}, change: func(l *clusterRead) {
			l.said[1].status.Term = 4
		}},
		{name: "a quorum of old terms", why: []string{noLeader, noLeader, noLeader}, change: func(l *clusterRead) {
			l.said[1].status.Term, l.said[2].status.Term = 4, 3
		}},
		{name: "two leaders", why: []string{noLeader, noLeader, noLeader}, change: func(l *clusterRead) {
			l.said[2].status.Leader, l.said[2].status.Term = 3, 6
		}},
		{name: "a leader that is no member", why: []string{noLeader, noLeader, noLeader}, change: func(l *clusterRead) {
			for i := range l.said {
				l.said[i].status.Leader = 8
			}
		}},
		{name: "a leader that may not vote", why: []string{noLeader, noLeader, noLeader}, change: func(l *clusterRead) { l.list.Members[0].Learner = true }},
		{name: "reports no leader", leader: "a", why: []string{"", "reports no leader", ""}, change: func(l *clusterRead) { l.said[1].status.Leader = 0 }},
		{name: "complains", leader: "a", why: []string{"", "says disk is broken", ""}, change: func(l *clusterRead) {
			l.said[1].status.Errors = []string{"memberID:2  alarm:NOSPACE ", "disk is broken"}
		}},
		{name: "sees other members", leader: "a", why: []string{"", "lists other members than a", ""}, change: func(l *clusterRead) {
			l.said[1].list.Members = l.list.Members[:2]
		}},
		{name: "thinks that it is a learner", leader: "a", why: []string{"", "does not know whether it has a vote", ""}, change: func(l *clusterRead) {
			l.said[1].status.Learner = true
		}},
		{name: "another answers in its place", leader: "a", why: []string{"", "does not answer at http://b: another member answers (3)", ""}, change: func(l *clusterRead) {
			l.said[1].status.Member = 3
		}},
		{name: "another cluster answers", leader: "a", why: []string{"", "does not answer at http://b: belongs to another cluster (7)", ""}, change: func(l *clusterRead) {
			l.said[1].status.Cluster = 7
		}},
		{name: "has not started", leader: "a", why: []string{"", "was added and has not started", ""}, change: func(l *clusterRead) {
			l.list.Members[1] = Member{ID: 2}
			l.said[1].err = errors.New("refused")
			l.said[0].list, l.said[2].list = l.list, l.list
		}},
		{name: "is not asked over a URL that is not encrypted", leader: "a", why: []string{"", "none of its client URLs may be asked: http://b", ""}, change: func(l *clusterRead) {
			l.said = append(l.said[:1], l.said[2:]...)
		}},
		{name: "answers at a URL of no member", leader: "a", why: []string{"", "", ""}, change: func(l *clusterRead) { l.said[1].url = "http://service" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := sound()
			c.change(l)
			v := judge(l)
			var why []string
			for _, s := range v.members {
				why = append(why, s.why)
			}
			if diff := cmp.Diff(c.why, why); diff != "" {
				t.Errorf("why (-want +got):\n%s", diff)
			}
			leader := ""
			if v.leader != nil {
				leader = v.leader.Name
			}
			if leader != c.leader {
				t.Errorf("leader %q, want %q", leader, c.leader)
			}
		})
	}
}

const noLeader = "no leader that a quorum agrees on"

func TestMembersAreFoundByName(t *testing.T) {
	l := sound()
	l.list.Members[2].Name = "b"
	l.list.Members[0].ID, l.said[0].status.Member = 0xab, 0xab
	v := judge(l)
	e := v.evidence(alarms{}, 10, []string{"ab", "3", "b"})
	if e.Members["b"] != nil {
		t.Error("two members are called b, and one of them was taken")
	}
	for _, id := range []string{"a", "ab", "3"} {
		if e.Members[id] == nil {
			t.Errorf("%s is not found", id)
		}
	}
	if _, known := e.System["alarms"]; known {
		t.Error("no member gave the alarms, and they are known")
	}
	if v.named("b") != nil || v.named("ab") == nil {
		t.Error("a step finds other members than the evidence")
	}
}

func TestLag(t *testing.T) {
	l := sound()
	l.said[1].status.Applied = 80
	l.said[2].err, l.said[2].status = errors.New("refused"), Status{}
	e := judge(l).evidence(alarms{known: true}, 10, nil)
	if diff := cmp.Diff([]any{int64(20), nil}, []any{e.Members["b"]["lag"], e.Members["c"]["lag"]}); diff != "" {
		t.Errorf("lag of b and c (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b (20 entries)"}, e.Members["a"]["othersBehind"]); diff != "" {
		t.Errorf("behind (-want +got):\n%s", diff)
	}
	if e.Members["a"]["quorumWithout"] != false || e.Members["a"]["votersWithout"] != int64(0) {
		t.Errorf("without a: %v", e.Members["a"])
	}
}

func TestURLsThatMayBeAsked(t *testing.T) {
	list := Membership{Members: []Member{{ClientURLs: []string{"http://a", "https://a"}}}}
	for _, c := range []struct{ endpoints, want []string }{
		{[]string{"https://x"}, []string{"https://a"}},
		{[]string{"https://x", "http://y"}, []string{"http://a", "https://a"}},
	} {
		got := (&cluster{endpoints: c.endpoints}).urlsOf(list)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.endpoints, diff)
		}
	}
}
