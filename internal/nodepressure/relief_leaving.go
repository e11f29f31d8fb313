package nodepressure

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// holdRefusals notes refusals that are new; they stand as long as they said when they were given.
func (l *look) holdRefusals() {
	for uid, refusal := range l.in.Refused {
		if h, known := l.Holds[uid]; known && h.At.Equal(refusal.At) {
			continue
		}
		stands := max(refusal.LookAgain.Sub(refusal.At), leastHold)
		a := l.acted(uid)
		l.Holds[uid] = Hold{At: refusal.At, Until: l.Clock + stands, Message: refusal.Message, Forced: a != nil && a.Kind != Evict}
		l.Acts = slices.DeleteFunc(l.Acts, func(a Act) bool { return a.UID == uid && !a.Gone })
	}
	maps.DeleteFunc(l.Holds, func(uid types.UID, h Hold) bool {
		_, known := l.in.Refused[uid]
		return l.pods[uid] == nil || !known && l.Clock >= h.Until
	})
}

// refused returns the refusal of a pod that still stands.
func (l *look) refused(uid types.UID) (Hold, bool) {
	h, found := l.Holds[uid]
	return h, found && l.Clock < h.Until
}

// followDepartures notes since when pods are seen leaving.
func (l *look) followDepartures() {
	l.leaving = map[types.UID]time.Duration{}
	for uid, p := range l.pods {
		if p.Terminating {
			l.leaving[uid] = p.Grace
		}
	}
	for _, d := range l.in.Leaving {
		if p := l.pods[d.UID]; p != nil && !p.Terminating {
			l.leaving[d.UID] = d.Grace
		}
	}
	for uid := range l.leaving {
		if _, known := l.Departures[uid]; !known {
			l.Departures[uid] = l.Clock
		}
	}
	maps.DeleteFunc(l.Departures, func(uid types.UID, _ time.Duration) bool {
		_, leaving := l.leaving[uid]
		return !leaving
	})
}

// followActs sees what became of what was done.
func (l *look) followActs() {
	kept := l.Acts[:0]
	for _, a := range l.Acts {
		if l.follow(&a) {
			kept = append(kept, a)
		}
	}
	l.Acts = kept
}

// follow reports whether an act still counts.
func (l *look) follow(a *Act) bool {
	if !a.Gone && l.ended(a) {
		a.Gone, a.Ended, a.GoneAt = true, l.Clock, l.in.Now
	}
	if a.Gone {
		if !l.settled(a) {
			return true
		}
		if a.Kind != Evict {
			l.Pause = l.Clock + killPause
		}
		return false
	}
	since, leaving := l.Departures[a.UID]
	if !leaving || a.local() {
		return l.Clock-a.Asked < askPatience
	}
	return l.Clock-since < l.leaving[a.UID]+overdue
}

// ended reports whether a pod is gone or, where its processes were killed, has given back what it used.
func (l *look) ended(a *Act) bool {
	p := l.pods[a.UID]
	if p == nil {
		return true
	}
	if !a.local() || p.Usage == nil || !p.Usage.At.After(a.AskedAt) {
		return false
	}
	return measure(a.Signal, l.in.Node.Layout, p).usage <= a.Used/10
}

// settleTimeOf is how long at most it is waited for what a signal is about.
func settleTimeOf(s Signal) time.Duration {
	if onDisk(s) {
		return diskSettleTime
	}
	return settleTime
}

// settled reports whether what a gone pod used was seen back, or was waited for long enough.
func (l *look) settled(a *Act) bool {
	if l.Clock-a.Ended >= settleTimeOf(a.Signal) {
		return true
	}
	r, problem := l.reading(a.Signal)
	if problem != "" || !r.At.After(a.GoneAt) {
		return false
	}
	if r.Available-a.Available >= a.Used/2 || !slices.ContainsFunc(l.due, func(t Threshold) bool { return t.Signal == a.Signal }) {
		return true
	}
	// Others may take it as fast as it comes back: it is not waited for until nothing is left.
	return slices.ContainsFunc(l.due, func(t Threshold) bool {
		left := settleTimeOf(a.Signal) - (l.Clock - a.Ended)
		if l.Clock-a.Ended < settleHurry {
			left = settleHurry
		}
		return t.Signal == a.Signal && l.exhaustedWithin(t, left)
	})
}

// underWay is something that will relieve the node and is waited for.
type underWay struct {
	act  *Act // nil: another client's doing
	pod  *Pod // nil: it is gone
	left time.Duration
	what string
}

// underWay returns what is waited for before more is done about a threshold, the slowest of it.
func (l *look) underWay(t Threshold) *underWay {
	var found *underWay
	consider := func(u *underWay) {
		if found == nil || u.left > found.left {
			found = u
		}
	}
	for i := range l.Acts {
		if u := l.actUnderWay(t, &l.Acts[i]); u != nil {
			consider(u)
		}
	}
	for _, p := range l.byName() {
		_, leaving := l.leaving[p.UID]
		if !leaving || l.acted(p.UID) != nil || !l.wouldHelp(t, p) {
			continue
		}
		if u := l.departure(t, p); u != nil {
			consider(u)
		}
	}
	return found
}

// actUnderWay returns what is waited for after an act, nil if nothing.
func (l *look) actUnderWay(t Threshold, a *Act) *underWay {
	if a.Gone {
		left := min(settleTimeOf(a.Signal), settleTimeOf(t.Signal)) - (l.Clock - a.Ended)
		if left <= 0 {
			return nil // memory does not wait for files that are being removed
		}
		return &underWay{act: a, left: left, what: fmt.Sprintf("%s is gone; what it used, %s, is not seen back", a.key(), a.Signal.Amount(a.Used))}
	}
	p := l.pods[a.UID]
	if a.Signal != t.Signal && !l.wouldHelp(t, p) {
		return nil
	}
	if _, leaving := l.leaving[a.UID]; leaving && !a.local() {
		u := l.departure(t, p)
		if u != nil {
			u.act = a
		}
		return u
	}
	left := max(a.Grace+askTime-(l.Clock-a.Asked), 0)
	return &underWay{act: a, pod: p, left: left, what: fmt.Sprintf("%s was asked to go %s ago", a.key(), short(l.Clock-a.Asked))}
}

// departure returns a pod that is leaving, nil if it is not waited for any longer.
func (l *look) departure(t Threshold, p *Pod) *underWay {
	age, grace := l.Clock-l.Departures[p.UID], l.leaving[p.UID]
	if age >= grace+overdue || t.Hard() && age >= hardPatience {
		return nil
	}
	left := max(grace-age, 0)
	return &underWay{pod: p, left: left, what: fmt.Sprintf("%s is leaving since %s, with %s to go", p.Key(), short(age), short(left))}
}

func (l *look) acted(uid types.UID) *Act {
	for i := range l.Acts {
		if l.Acts[i].UID == uid {
			return &l.Acts[i]
		}
	}
	return nil
}

// byName returns the pods in an order that does not depend on chance.
func (l *look) byName() []*Pod {
	out := slices.Collect(maps.Values(l.pods))
	slices.SortFunc(out, func(a, b *Pod) int { return byName.cmp(entry{pod: a}, entry{pod: b}) })
	return out
}
