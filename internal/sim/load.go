package sim

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// loads reports whether the pod stays by its policy, and what it carries is to leave.
func (s *Sim) loads(p *snapshot.Pod) bool { return s.truth.Loads(p) }

// awaitsRole reports whether members of roles that leave before the pod's are on its node, as the verdict of its policy does.
func (s *Sim) awaitsRole(p *snapshot.Pod) bool {
	member, some := s.truth.MembershipOf(p)
	if !some || len(member.Entry.LeavesAfter) == 0 {
		return false
	}
	return slices.ContainsFunc(s.truth.PodsOn(p.Node), func(other *snapshot.Pod) bool {
		of, is := s.truth.MembershipOf(other)
		if !is || of.Policy != member.Policy || other.UID == p.UID || other.Finished() || !slices.Contains(member.Entry.LeavesAfter, of.Entry.Role) {
			return false
		}
		return !s.Emptied(other)
	})
}

// Emptied reports whether a pod stays and carries nothing any more, for a request that stands.
func (s *Sim) Emptied(p *snapshot.Pod) bool {
	e := s.truth.EvictionOf(p)
	return e != nil && e.Emptied && s.wantedGone(p)
}

// empty is what the responder says once nothing of what the pod carries is left.
func (s *Sim) empty(p *snapshot.Pod) {
	e := *s.truth.EvictionOf(p)
	e.Emptied, e.Message = true, v1alpha1.EmptiedPrefix+"the pod stays"
	s.setEviction(&e)
}

// fill ends the eviction of a pod that stays when no request of it is left: what was prepared is undone.
func (s *Sim) fill(uid types.UID) {
	p := s.truth.Pod(uid)
	if p == nil || !s.loads(p) || s.wantedGone(p) {
		return
	}
	if e := s.truth.EvictionOf(p); e != nil {
		s.truth.DeleteEviction(e.Key())
		s.tellRequests(func(c *snapshot.Cluster) { c.DeleteEviction(e.Key()) })
	}
}

// expire looks at the request of a drain for a pod that stays, as the manager does: it withdraws one whose drain has ended, unless the drain
// has drained the node and that was not given back since.
func (s *Sim) expire(key snapshot.Key) {
	r := s.truth.Request(key)
	if r == nil {
		return
	}
	who, drains := r.Drainer()
	if !drains {
		return
	}
	if until := drain.LiveUntil(snapshot.View{Now: s.now, Cluster: s.truth}, who); until.After(s.now) {
		s.after(until.Sub(s.now), func() { s.expire(key) })
		return
	}
	if p := s.truth.Pod(r.PodUID); p != nil {
		if n := s.truth.Node(p.Node); n != nil && n.KeptDrained(who.ID) {
			return // the events of the node have it looked at again
		}
	}
	s.deleteRequest(r)
}

// givenBack has the manager look at what the drain asked for that had drained a node, where that is so no more.
func (s *Sim) givenBack(before, after *snapshot.Node) {
	if !s.cfg.Expire || before == nil || before.Drain == nil || !before.KeptDrained(before.Drain.ID) || after.KeptDrained(before.Drain.ID) {
		return
	}
	for _, r := range s.truth.Requests() {
		who, drains := r.Drainer()
		if p := s.truth.Pod(r.PodUID); drains && who.ID == before.Drain.ID && p != nil && s.loads(p) {
			key := r.Key()
			s.after(0, func() { s.expire(key) })
		}
	}
}
