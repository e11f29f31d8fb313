package replacement

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// slowDeletion is how long a pod may be terminating before it counts as failing (source 002: 300 s).
const slowDeletion = 300 * time.Second

// Observe returns the record of a member after a look at what is known of it.
func Observe(m *Member, terms *Terms, now time.Time) Record {
	if m.Paused != "" {
		return m.Record
	}
	o := observation{Member: m, terms: terms, now: now}
	o.conditions = o.carried()
	if len(terms.Taints) == 0 {
		o.taints = nil
		o.when(NodeTainted, false, true)
	}
	o.system()
	o.pod()
	o.when(ClaimMissing, m.Facts.Claims == No, m.Facts.Claims == Yes)
	o.when(ServiceMissing, m.Facts.Service == No, m.Facts.Service == Yes)
	slices.SortFunc(o.conditions, func(a, b Condition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	return Record{Conditions: o.conditions, Node: o.node, Taints: o.taints}
}

type observation struct {
	*Member

	terms      *Terms
	now        time.Time
	conditions []Condition
	node       string
	taints     []TaintClock
}

// carried are the conditions that are remembered. After a cancellation they count from then on, and a taint that has led to a replacement
// has to do so anew. None has begun in the future.
func (o *observation) carried() []Condition {
	var all []Condition
	for _, c := range o.Record.Conditions {
		if c.Type == NodeTainted && c.StartTime.Before(o.CancelTime) {
			continue
		}
		all = append(all, Condition{Type: c.Type, StartTime: o.since(c.StartTime)})
	}
	o.node = o.Record.Node
	for _, clock := range o.Record.Taints {
		clock.StartTime = o.since(clock.StartTime)
		o.taints = append(o.taints, clock)
	}
	return all
}

// since is a time that is not before the cancellation and not in the future.
func (o *observation) since(start time.Time) time.Time {
	if start.Before(o.CancelTime) {
		start = o.CancelTime
	}
	if start.After(o.now) {
		return o.now
	}
	return start
}

// when sets or clears a condition; with neither it stays as it is remembered.
func (o *observation) when(kind ConditionType, set, clear bool) {
	at := slices.IndexFunc(o.conditions, func(c Condition) bool { return c.Type == kind })
	switch {
	case set && at < 0:
		o.conditions = append(o.conditions, Condition{Type: kind, StartTime: o.now})
	case clear && at >= 0:
		o.conditions = slices.Delete(o.conditions, at, at+1)
	}
}

// done reports whether the member is as good as replaced, so that it may lack what it has no use for.
func (o *observation) done() bool { return o.Marked && o.Facts.Excluded == Yes }

// system looks at what its system says. Of a member that it does not report, it says nothing of an exclusion either.
func (o *observation) system() {
	f := &o.Facts
	o.when(NotReporting, f.Reported == No, f.Reported == Yes)
	if f.Reported != Yes || f.Excluded == Unknown {
		return
	}
	unmarked := f.Excluded == Yes && !o.Marked && !f.ExclusionWanted
	o.when(ExcludedUnmarked, unmarked, !unmarked)
}

// pod looks at its pod. One that is not there, or not started, says nothing of what it was before.
func (o *observation) pod() {
	f := &o.Facts
	switch {
	case f.HasPod == Unknown:
		return
	case f.HasPod == No:
		o.when(PodMissing, !o.done(), o.done())
		return
	}
	o.when(PodMissing, false, true)
	o.when(PodPending, f.Pod.Pending, !f.Pod.Pending)
	if f.Pod.Pending {
		return
	}
	slow := !f.Pod.DeletionTime.IsZero() && o.now.Sub(f.Pod.DeletionTime) >= slowDeletion && !o.done()
	o.when(PodFailing, slow || !f.Pod.Healthy, !slow && f.Pod.Healthy)
	o.tainted()
}

// tainted looks at the taints of its pod's node. Each has a clock of its own.
func (o *observation) tainted() {
	if o.Node == "" || !o.Facts.NodeKnown {
		return
	}
	if o.node != o.Node {
		o.node, o.taints = o.Node, nil
		o.when(NodeTainted, false, true)
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
	o.taints = clocks
}

// clock is the one that runs for a taint. A new one counts from the time that the taint itself gives, which Kubernetes sets for NoExecute.
func (o *observation) clock(taint *corev1.Taint) TaintClock {
	at := slices.IndexFunc(o.taints, func(c TaintClock) bool { return c.Key == taint.Key && c.Effect == taint.Effect })
	if at >= 0 {
		return o.taints[at]
	}
	clock := TaintClock{Key: taint.Key, Effect: taint.Effect, StartTime: o.now}
	if taint.TimeAdded != nil {
		clock.StartTime = o.since(taint.TimeAdded.Time)
	}
	return clock
}
