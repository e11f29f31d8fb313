package drain

import (
	"fmt"
	"slices"

	"usher.sh/usher/internal/text"
)

// leavesAfter reports whether a pod waits for another one on its node by their policy.
func (q *queued) leavesAfter(other *queued) bool {
	return q.member.Entry != nil && other.member.Policy == q.member.Policy && slices.Contains(q.member.Entry.LeavesAfter, other.member.Entry.Role)
}

// keepRoles lets the roles of policies come before waves, priorities and annotations: what is to leave after a pod of a later wave waits as
// that one does. So a policy can put off its own members only. No roles wait for each other in a circle, so that one round for
// each role of a policy is enough; a policy has sixteen at most.
func keepRoles(leaving []queued) {
	const mostRoles = 16
	for range mostRoles {
		changed := false
		for i := range leaving {
			q := &leaving[i]
			if q.member.Entry == nil || len(q.member.Entry.LeavesAfter) == 0 {
				continue
			}
			for k := range leaving {
				changed = q.leavesAfter(&leaving[k]) && q.putOff(&leaving[k]) || changed
			}
		}
		if !changed {
			return
		}
	}
}

// putOff gives a pod the place of an earlier one, if its own comes before that, and reports whether that changed it.
func (q *queued) putOff(earlier *queued) bool {
	before := *q
	if q.wave.compare(earlier.wave) < 0 {
		q.wave = earlier.wave
	}
	if q.rank.compare(earlier.rank) < 0 {
		q.rank = earlier.rank
	}
	q.depth = max(q.depth, earlier.depth+1)
	return q.wave != before.wave || q.rank != before.rank || q.depth != before.depth
}

// lineUpRoles lets each pod of the node wait for those of roles that leave before its own, unless the deadline does not. The verdict of its
// policy waits for them as well, and without an end, so that no order is lost where the drain's patience is.
func (d *decider) lineUpRoles(t *target) {
	for i := range t.queue {
		q := &t.queue[i]
		if q.member.Entry == nil || len(q.member.Entry.LeavesAfter) == 0 || d.mustGo(q.pod) {
			continue
		}
		q.earlier = d.inLine(t.queue, func(other *queued) bool { return q.leavesAfter(other) && d.inTurn(other, t) })
		if q.earlier.first != nil {
			until, _ := d.patient(t.status.Name)
			d.wake(until)
		}
	}
}

// earlierRole names what the pod waits for by its policy, and for how long the drain does.
func (d *decider) earlierRole(q *queued, t *target) Blocker {
	p, first := q.pod, q.earlier.first
	b := Blocker{Reason: EarlierRole, Pod: p.Key(), Node: p.Node}
	if !d.verbose {
		return b
	}
	b.Message = "waits for " + first.Name
	if member, some := d.Cluster.MembershipOf(first); some {
		b.Message += " of role " + member.Entry.Role
	}
	if more := q.earlier.pods - 1; more > 0 {
		b.Message += fmt.Sprintf(" and %s", text.Count(more, "more pod"))
	}
	b.Message += ", which policy " + q.member.Policy.Name + " has leave first (leavesAfter)"
	until, _ := d.patient(t.status.Name)
	b.Remedy = fmt.Sprintf("wait, while nothing moves no longer than until %s; or usher why pod/%s -n %s", until.Format("15:04:05"), first.Name, first.Namespace)
	return b
}
