package nodepressure

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// watch compares readings with thresholds. A grace period runs only from one new reading to the next.
func (l *look) watch(thresholds []Threshold) {
	keys := map[string]bool{}
	for _, t := range thresholds {
		keys[t.key()] = true
		l.compare(t)
	}
	maps.DeleteFunc(l.Breaches, func(key string, _ Breach) bool { return !keys[key] })
	sortUrgent(l.due)
	for _, t := range l.met {
		_, problem := l.reading(t.Signal)
		if b := l.Breaches[t.key()]; problem == "" && !b.Due && !l.harder(t) {
			left := t.Grace - b.Held
			l.wait(t, ReasonGrace, left, fmt.Sprintf("its grace period of %s ends in %s", t.Grace, short(left)))
		}
	}
	l.waitForReadings(thresholds)
}

func (l *look) compare(t Threshold) {
	reading, problem := l.reading(t.Signal)
	b, known := l.Breaches[t.key()]
	if problem != "" {
		if known {
			l.met = append(l.met, t)
		}
		return
	}
	if !t.Met(reading) && (!b.Due || !t.MetWithReclaim(reading)) {
		delete(l.Breaches, t.key())
		return
	}
	switch {
	case !known:
		b.Seen = l.Clock
	case !reading.At.Equal(b.At):
		b.Held += min(l.Clock-b.Seen, maxStep)
		b.Seen = l.Clock
	}
	b.At = reading.At
	b.Due = b.Due || b.Held >= t.Grace
	l.Breaches[t.key()] = b
	l.met = append(l.met, t)
	if b.Due {
		l.due = append(l.due, t)
	}
}

// reading returns what was read of a signal, or what is wrong with it.
func (l *look) reading(s Signal) (Reading, string) {
	r, found := l.in.Node.Readings[s]
	age := l.in.Now.Sub(r.At)
	switch {
	case !found:
		return r, "could not be read"
	case r.At.IsZero():
		return r, "was read at an unknown time"
	case age > maxAge:
		return r, fmt.Sprintf("was last read %s ago", short(age))
	case age < -maxAhead:
		return r, fmt.Sprintf("was read %s in the future: the clock was set back", short(-age))
	}
	return r, ""
}

// waitForReadings says what cannot be watched.
func (l *look) waitForReadings(thresholds []Threshold) {
	var last Signal
	for _, t := range thresholds {
		_, problem := l.reading(t.Signal)
		_, found := l.in.Node.Readings[t.Signal]
		if problem == "" || t.Signal == last || !found && optional(t.Signal) {
			continue
		}
		last = t.Signal
		l.waits = append(l.waits, Action{
			Kind: Wait, Reason: ReasonUnread, Threshold: &t,
			Message: fmt.Sprintf("%s %s; nothing is done on its account until it is read again", t.Signal, problem),
		})
	}
}

// optional reports whether a signal has thresholds that were not configured, and may have no reading.
func optional(s Signal) bool {
	return s == AllocatableMemoryAvailable || s == ContainerFsAvailable || s == ContainerFsInodesFree
}

// say announces the node's conditions when they have changed, and once at the start.
func (l *look) say() {
	begun := l.Said == nil
	for _, t := range l.met {
		l.Conditions[t.Signal.Condition()] = l.Clock
	}
	transition := l.in.Config.withDefaults().EvictionPressureTransitionPeriod.Duration
	maps.DeleteFunc(l.Conditions, func(c corev1.NodeConditionType, seen time.Duration) bool {
		return l.Clock-seen >= transition && seen != l.Clock
	})
	now := slices.AppendSeq([]corev1.NodeConditionType{}, maps.Keys(l.Conditions))
	slices.Sort(now)
	if !begun && slices.Equal(now, l.Said) {
		return
	}
	l.Said = now
	a := Action{Kind: Say, Reason: ReasonNoPressure, Conditions: now, Message: "no threshold is met"}
	if len(now) > 0 {
		a.Reason, a.Message = ReasonPressure, l.pressures()
	}
	l.actions = append(l.actions, a)
}
