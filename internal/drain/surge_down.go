package drain

import (
	"fmt"
	"slices"

	"usher.sh/usher/internal/snapshot"
)

// removeSpare removes as many of the leaving pods as there are ready replacements.
func (d *decider) removeSpare(s *surge) {
	w := s.deployment
	unready := int(w.Replicas) - s.ready
	settled := d.lastStep(w).Add(settleFor)
	d.wake(settled)
	switch {
	case s.running > int(w.Replicas) || d.underWay(w):
		s.waiting = d.surgeTooMany(s)
	case unready > 0 && (s.spare == 0 || d.Now.Before(settled)):
		s.waiting = d.surgeUnready(s, unready)
	case d.byEviction(s):
	case !d.costsRestored(w, s.leaving): // unready to a ReplicaSet is what is not Ready, and the lowest cost comes next
	case unready > 0:
		d.rescale(s, int32(s.ready), false, "the replacements that do not get ready are given up") //nolint:gosec // a count of pods
	case !d.costsLowered(s):
	default:
		gone := min(len(s.leaving), s.spare)
		d.rescale(s, w.Replicas-int32(gone), true, "replacements are ready, as many leave "+places(s.leaving)) //nolint:gosec // a count of pods
	}
}

// costsLowered makes the leaving pods, and no others, the first that the ReplicaSet removes. It
// reports whether that was observed for all of them.
func (d *decider) costsLowered(s *surge) bool {
	restored := d.costsRestored(s.deployment, s.leaving)
	own := slices.DeleteFunc(slices.Clone(s.leaving), func(p *snapshot.Pod) bool { return s.memberOf(p) != nil })
	lowered, marked := d.lowerCosts(own), d.membersMarked(s)
	for _, p := range own {
		if _, t := d.standing(LowerCost, p.UID, p.ResourceVersion); t.tired() && s.waiting.Reason == "" {
			s.waiting = d.failing(t, "the deletion cost of pod "+p.Name+" cannot be lowered", p.Namespace)
		}
	}
	return restored && lowered && marked
}

// lowerCosts lowers the deletion costs of pods of this drain, and reports whether that was observed for all of them.
func (d *decider) lowerCosts(pods []*snapshot.Pod) bool {
	all := true
	for _, p := range pods {
		if markedBy(p, d.req.Self.ID) {
			continue
		}
		all = false
		d.try(Action{Kind: LowerCost, Pod: p, Drain: d.req.Self.ID, Why: "the scaling down is to remove this pod"})
	}
	return all
}

// costsRestored gives the pods of a surged Deployment their deletion costs back but for those that leave, and reports whether
// that was observed: what stays must not be the first that a scaling down removes.
func (d *decider) costsRestored(w *snapshot.Workload, leaving []*snapshot.Pod) bool {
	all := true
	for _, p := range d.podsOf(w) {
		if slices.Contains(leaving, p) || p.Terminating() {
			continue
		}
		coming := w.Surge.ID == d.req.Self.ID && d.markComes(d.led.tries[tryKey{LowerCost, p.UID}])
		if d.restoreCost(p, w.Surge.ID) || coming || d.comesBack(p) {
			all = false
		}
	}
	return all
}

// rescale sets the replicas of a surged Deployment, never below what its owner asked
// for. The surge is over when that number is reached. removes: as many as it takes away are to be of the pods that leave.
func (d *decider) rescale(s *surge, to int32, removes bool, why string) {
	w := s.deployment
	to = max(to, w.Surge.Was)
	if s.scaler != nil && d.ours(s.scaler.Surge) {
		d.lowerMin(s)
		return
	}
	var record *snapshot.SurgeRecord
	if to > w.Surge.Was {
		next := *w.Surge
		next.To, next.Step, next.Beat = to, d.Now, d.Now
		record = &next
	}
	a := Action{Kind: Scale, Workload: w, Replicas: to, Surge: record, Why: why}
	if removes {
		a.removes = s.leaving
	}
	if _, t := d.standing(a.Kind, a.Target(), a.version()); t.tired() {
		s.waiting = d.failing(t, fmt.Sprintf("%s cannot be scaled down to %d", w.Name, to), w.Namespace)
	}
	d.try(a)
}

// lowerMin gives the autoscaler of a surged Deployment its own minimum back, so that it lets the Deployment be scaled down.
func (d *decider) lowerMin(s *surge) {
	back := restoreMin(s.scaler, s.deployment)
	s.waiting = Blocker{Reason: SurgeStarting, Message: fmt.Sprintf("autoscaler %s gets its minimum of %d back, so that its pods can be removed", s.scaler.Name, back.Replicas), Remedy: "wait"}
	if _, t := d.standing(back.Kind, back.Target(), back.version()); t.tired() {
		s.waiting = d.failing(t, fmt.Sprintf("autoscaler %s cannot be given its minimum of %d back", s.scaler.Name, back.Replicas), s.scaler.Namespace)
	}
	d.tryOrStop(s, back)
}

// failing says what a step of a surge waits for that was tried in vain: what has failed for lateWrites does not clear by itself.
func (d *decider) failing(t *try, what, namespace string) Blocker {
	until := t.failing.Add(lateWrites)
	d.wake(until)
	return Blocker{Reason: SurgeStarting, Message: what + ": " + t.answer.Message, Remedy: refusalRemedy(t, namespace), Dead: !d.Now.Before(until)}
}
