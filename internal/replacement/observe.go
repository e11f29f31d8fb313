package replacement

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// slowDeletion is how long after its deletionTimestamp a pod may be there before it counts as failing (source 002: 300 s).
const slowDeletion = 300 * time.Second

// Observe returns the record of a member after a look at what is known of it, and which of its conditions this look has seen. The others
// are remembered, and could not be looked at.
func Observe(m *Member, terms *Terms, now time.Time) (Record, []ConditionType) {
	o := observation{Member: m, paused: m.Paused, terms: terms, now: now}
	o.carry()
	if m.Paused == "" {
		o.look()
	}
	slices.SortFunc(o.next.Conditions, func(a, b Condition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	return o.next, o.seen
}

type observation struct {
	*Member

	paused string
	terms  *Terms
	now    time.Time
	next   Record
	seen   []ConditionType
}

// carry takes over what is remembered. After a cancellation, and after a pause, it counts from then on; after a cancellation a taint that
// has led to a replacement has to be there for as long again. Nothing has begun in the future.
func (o *observation) carry() {
	from := o.CancelTime
	if o.Record.Paused && o.paused == "" {
		from = o.now
	}
	last := &o.Record
	o.next = Record{Zone: cmp.Or(o.Zone, last.Zone), Node: last.Node, NodeUID: last.NodeUID, Paused: o.paused != ""}
	for _, c := range last.Conditions {
		cancelled := c.Type == NodeTainted && !o.CancelTime.IsZero() && !c.StartTime.After(o.CancelTime)
		if cancelled || !slices.Contains(allConditions, c.Type) {
			continue
		}
		o.next.Conditions = append(o.next.Conditions, Condition{Type: c.Type, StartTime: o.within(c.StartTime, from)})
	}
	for _, clock := range last.Taints {
		clock.StartTime = o.within(clock.StartTime, from)
		o.next.Taints = append(o.next.Taints, clock)
	}
}

// within is a time that is not before another one, and not in the future.
func (o *observation) within(start, from time.Time) time.Time {
	if start.Before(from) {
		start = from
	}
	if start.After(o.now) {
		return o.now
	}
	return start
}

// look sets and clears what is known. A member that is as good as replaced may lack whatever it has no use for.
func (o *observation) look() {
	if o.Marked && o.Facts.Emptied == Yes {
		o.next.Conditions, o.next.Taints = nil, nil
		return
	}
	o.system()
	o.pod()
	o.when(ClaimMissing, o.Facts.Claims == No, o.Facts.Claims == Yes)
	o.when(ServiceMissing, o.Facts.Service == No, o.Facts.Service == Yes)
}

// when sets or clears a condition; with neither it stays as it is remembered.
func (o *observation) when(kind ConditionType, set, unset bool) {
	at := slices.IndexFunc(o.next.Conditions, func(c Condition) bool { return c.Type == kind })
	if set {
		o.seen = append(o.seen, kind)
	}
	switch {
	case set && at < 0:
		o.next.Conditions = append(o.next.Conditions, Condition{Type: kind, StartTime: o.now})
	case unset && at >= 0:
		o.next.Conditions = slices.Delete(o.next.Conditions, at, at+1)
	}
}

// system is about what its system reports. Of a member that it does not report, nothing is known of an exclusion either.
func (o *observation) system() {
	f := &o.Facts
	o.when(NotReporting, f.Reported == No, f.Reported == Yes)
	if f.Reported != Yes || f.Excluded == Unknown {
		return
	}
	unmarked := f.Excluded == Yes && !o.Marked && !f.ExclusionWanted
	o.when(ExcludedUnmarked, unmarked, !unmarked)
}

// pod looks at its pod. Of one that is not there, or not started, nothing is known of what it was before.
func (o *observation) pod() {
	f := &o.Facts
	switch f.HasPod {
	case Unknown:
		return
	case No:
		o.next.Taints = nil // they are about pods that run
		o.when(PodMissing, true, false)
		o.latched()
		return
	case Yes:
	}
	o.moved()
	o.when(PodMissing, false, true)
	o.when(PodPending, f.Pod.Pending, !f.Pod.Pending)
	if !f.Pod.Pending {
		slow := !f.Pod.DeletionTime.IsZero() && o.now.Sub(f.Pod.DeletionTime) >= slowDeletion
		o.when(PodFailing, slow || !f.Pod.Healthy, !slow && f.Pod.Healthy)
		o.tainted()
	}
	o.latched()
}

// moved forgets the taints of another node than the one that its pod is bound to, also of one that had the same name.
func (o *observation) moved() {
	uid := o.Facts.NodeUID
	another := o.Node != o.next.Node || uid != "" && o.next.NodeUID != "" && uid != o.next.NodeUID
	if o.Node == "" || !another {
		o.next.NodeUID = cmp.Or(uid, o.next.NodeUID)
		return
	}
	o.next.Node, o.next.NodeUID, o.next.Taints = o.Node, uid, nil
	o.when(NodeTainted, false, true)
}

// latched keeps NodeTainted, once it is set, whatever becomes of the taint (source 002), unless no taint counts any more.
func (o *observation) latched() {
	set := slices.ContainsFunc(o.next.Conditions, func(c Condition) bool { return c.Type == NodeTainted })
	if none := len(o.terms.Taints) == 0; set && none {
		o.when(NodeTainted, false, true)
	} else if set && !slices.Contains(o.seen, NodeTainted) {
		o.seen = append(o.seen, NodeTainted)
	}
}

// tainted looks at the taints of its pod's node. Each has a clock of its own, by key and effect.
func (o *observation) tainted() {
	if o.Node == "" || !o.Facts.NodeKnown {
		return
	}
	var clocks []TaintClock
	for i := range o.Facts.Taints {
		taint := &o.Facts.Taints[i]
		rule := o.terms.ruleFor(taint.Key)
		if rule == nil {
			continue
		}
		clock := o.clock(taint)
		clocks = append(clocks, clock)
		if o.now.Sub(clock.StartTime) >= rule.After {
			o.when(NodeTainted, true, false)
		}
	}
	slices.SortFunc(clocks, func(a, b TaintClock) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect)) })
	o.next.Taints = clocks
}

// clock is the one that runs for a taint. The time that the taint itself gives, which Kubernetes sets for NoExecute, goes before that of the
// first look: it is earlier for a taint that was there before, and later for one that was taken off and put on again unseen.
func (o *observation) clock(taint *corev1.Taint) TaintClock {
	clock := TaintClock{Key: taint.Key, Effect: taint.Effect, StartTime: o.now}
	at := slices.IndexFunc(o.next.Taints, func(c TaintClock) bool { return c.Key == taint.Key && c.Effect == taint.Effect })
	if at >= 0 {
		clock = o.next.Taints[at]
	}
	if taint.TimeAdded != nil && (at < 0 || taint.TimeAdded.After(clock.StartTime)) {
		clock.StartTime = o.within(taint.TimeAdded.Time, o.CancelTime)
	}
	return clock
}
