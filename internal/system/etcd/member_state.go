package etcd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/system"
)

// memberState is what is held to be true of one member.
type memberState struct {
	Member
	url      string // where it answered; "" if nowhere
	status   Status // what it answered
	why      string // why it is not healthy, "" if it is
	isolated bool
	lag      uint64 // only if it answered
}

func (s *memberState) answered() bool { return s.url != "" }
func (s *memberState) healthy() bool  { return s.why == "" }

// view is what is held to be true of the cluster.
type view struct {
	members []*memberState // in the order of their ids
	quorum  int
	leader  *memberState // nil unless agreed
	term    uint64       // of that leader
	leaders []string     // each member that a voter names as leader
	called  map[uint64]bool
}

// judge weighs what each member answered against what the others answered.
func judge(l *clusterRead) *view {
	v := &view{called: map[uint64]bool{}}
	for _, m := range l.list.Members {
		v.members = append(v.members, &memberState{Member: m})
	}
	slices.SortFunc(v.members, func(a, b *memberState) int { return cmp.Compare(a.ID, b.ID) })
	v.quorum = len(v.voters())/2 + 1
	lists := v.attribute(l)
	v.elect()
	for _, s := range v.members {
		if s.answered() {
			s.why = v.unhealthyReason(s, l.list, lists[s.ID])
			s.isolated = s.status.Leader == 0 || !s.Learner && lists[s.ID].listErr != nil || v.disagrees(s)
		}
	}
	v.measure()
	return v
}

// distrust takes no member for healthy whose pod has not started: what answers in its place is the process of a pod that was removed without waiting for its end, and ends
// as soon as its kubelet knows.
func (v *view) distrust(members []system.Member) {
	for _, s := range v.members {
		left := func(m system.Member) bool {
			return (m.ID == s.Name && v.unique(s.Name) || m.ID == hexID(s.ID)) && m.Pod != nil && (m.Pod.Node == "" || m.Pod.Phase == corev1.PodPending)
		}
		if s.healthy() && slices.ContainsFunc(members, left) {
			s.why = "answers, and its pod has not started: a process that was left behind"
		}
	}
}

// attribute gives each answer to the member that signed it. Of several answers of one member the one that reached the quorum
// counts, or else the first.
func (v *view) attribute(l *clusterRead) map[uint64]response {
	attributed := map[uint64]response{}
	for _, s := range v.members {
		s.why = unreached(s.Member, l)
		for _, a := range l.said {
			if a.err != nil || a.status.Member != s.ID || a.status.Cluster != l.list.Cluster {
				continue
			}
			if best, ok := attributed[s.ID]; !ok || best.listErr != nil && a.listErr == nil {
				attributed[s.ID] = a
				s.url, s.status = a.url, a.status
			}
		}
	}
	return attributed
}

// unreached says why a member has not answered, from what its own URLs said.
func unreached(m Member, l *clusterRead) string {
	if m.Name == "" {
		return "was added and has not started"
	}
	var causes []string
	for _, a := range l.said {
		switch {
		case !slices.Contains(m.ClientURLs, a.url):
		case a.err != nil:
			causes = append(causes, fmt.Sprintf("%s: %s", a.url, words(a.err)))
		case a.status.Cluster != l.list.Cluster:
			causes = append(causes, fmt.Sprintf("%s: belongs to another cluster (%s)", a.url, hexID(a.status.Cluster)))
		default:
			causes = append(causes, fmt.Sprintf("%s: another member answers (%s)", a.url, hexID(a.status.Member)))
		}
	}
	if len(causes) == 0 {
		return "none of its client URLs may be asked: " + strings.Join(m.ClientURLs, ", ")
	}
	return "does not answer at " + strings.Join(causes, "; ")
}

// elect finds the leader that a quorum of voters names at one term, if no voter names another.
func (v *view) elect() {
	type leaderTerm struct{ leader, term uint64 }
	votes := map[leaderTerm]int{}
	for _, s := range v.voters() {
		if s.answered() && s.status.Leader != 0 {
			votes[leaderTerm{s.status.Leader, s.status.Term}]++
			v.called[s.status.Leader] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.called)) {
		v.leaders = append(v.leaders, v.nameOf(id))
	}
	for r, n := range votes {
		leader := v.find(r.leader)
		if len(v.called) == 1 && n >= v.quorum && leader != nil && !leader.Learner {
			v.leader, v.term = leader, r.term
		}
	}
}

// unhealthyReason says why a member that answered is not healthy, "" if it is.
func (v *view) unhealthyReason(s *memberState, list Membership, own response) string {
	grave := slices.DeleteFunc(slices.Clone(s.status.Errors), harmless)
	switch {
	case s.status.Leader == 0:
		return "reports no leader"
	case v.leader == nil:
		return "no leader that a quorum agrees on"
	case v.disagrees(s):
		return fmt.Sprintf("follows %s in term %d, and the quorum %s in term %d",
			v.nameOf(s.status.Leader), s.status.Term, v.leader.label(), v.term)
	case len(grave) > 0:
		return "says " + strings.Join(grave, ", ")
	case s.Learner != s.status.Learner:
		return "does not know whether it has a vote"
	case s.Learner:
		return ""
	case own.listErr != nil:
		return "does not reach the quorum: " + words(own.listErr)
	case !sameMembers(own.list, list):
		return "lists other members than " + v.nameOf(list.By)
	}
	return ""
}

// harmless reports whether an error in a member's status says nothing about its part in the quorum. Alarms are judged apart.
func harmless(e string) bool { return strings.Contains(e, "alarm:") }

// disagrees reports whether the member names another leader or term than the quorum. A learner observes a new leader as late
// as it receives the log.
func (v *view) disagrees(s *memberState) bool {
	return v.leader != nil && s.status.Leader != 0 && (s.status.Leader != v.leader.ID || s.status.Term != v.term)
}

// sameMembers compares which members are in the lists and which of them may vote.
func sameMembers(a, b Membership) bool {
	votes := func(m Membership) map[uint64]bool {
		all := map[uint64]bool{}
		for _, x := range m.Members {
			all[x.ID] = !x.Learner
		}
		return all
	}
	return a.Cluster == b.Cluster && maps.Equal(votes(a), votes(b))
}

// measure finds out how far each member is behind the newest entry that any voter knows to be committed.
func (v *view) measure() {
	var newest uint64
	for _, s := range v.voters() {
		newest = max(newest, s.status.Committed, s.status.Applied)
	}
	for _, s := range v.members {
		if s.answered() && s.status.Applied < newest {
			s.lag = newest - s.status.Applied
		}
	}
}

func (v *view) voters() []*memberState {
	return slices.DeleteFunc(slices.Clone(v.members), func(s *memberState) bool { return s.Learner })
}

// others are the voters without s.
func (v *view) others(s *memberState) []*memberState {
	return slices.DeleteFunc(v.voters(), func(o *memberState) bool { return o == s })
}

func (v *view) find(id uint64) *memberState {
	i := slices.IndexFunc(v.members, func(s *memberState) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return v.members[i]
}

func (v *view) nameOf(id uint64) string {
	if s := v.find(id); s != nil {
		return s.label()
	}
	return hexID(id)
}
