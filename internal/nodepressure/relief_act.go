package nodepressure

import (
	"fmt"
	"slices"
	"time"
)

// act lets the chosen pod go and remembers it.
func (l *look) act(t Threshold, c *choice, ranking []Ranked) {
	message := l.sentence(t, c)
	if l.asks(c) {
		l.Requested = &Requested{UID: c.pod.UID, Namespace: c.pod.Namespace, Name: c.pod.Name}
		l.actions = append(l.actions, Action{Kind: Request, Pod: c.pod, Threshold: &t, Reason: c.reason, Message: message})
	}
	l.actions = append(l.actions, Action{
		Kind: c.kind, Pod: c.pod, Grace: c.grace, BreakGlass: c.glass, Threshold: &t,
		Reason: c.reason, Message: message, Ranking: ranking,
	})
	l.Acts = slices.DeleteFunc(l.Acts, func(a Act) bool { return a.UID == c.pod.UID })
	grace := c.grace
	if c.kind == Evict && grace == 0 {
		grace = c.pod.Grace
	}
	l.Acts = append(l.Acts, Act{
		UID: c.pod.UID, Namespace: c.pod.Namespace, Name: c.pod.Name, Signal: t.Signal, Kind: c.kind,
		Asked: l.Clock, AskedAt: l.in.Now, Grace: grace, Used: c.used, Available: l.in.Node.Readings[t.Signal].Available,
	})
}

// hasten waits for what is under way or, below a hard threshold, speeds it up: a pod that was asked to go gets less time,
// and what is slower than the exhaustion gets one kill more.
func (l *look) hasten(t Threshold, u *underWay) {
	reason := ReasonLeaving
	if u.pod == nil {
		reason = ReasonSettling
	}
	if c, ranking := l.killInstead(t, u); c != nil {
		l.act(t, c, ranking)
		return
	}
	if t.Hard() && l.in.Reachable && u.left > leastGrace+askTime && l.ours(u) && l.surelyHelps(t, u.pod) {
		used := measure(t.Signal, l.in.Node.Layout, u.pod).usage
		l.act(t, &choice{pod: u.pod, used: used, kind: Remove, grace: leastGrace, reason: ReasonHard}, l.rank(t))
		return
	}
	l.wait(t, reason, u.left, u.what)
}

// killInstead returns the pod to kill rather than wait for what is under way, nil if none: below a hard threshold, one at a
// time, and only where that helps.
func (l *look) killInstead(t Threshold, u *underWay) (*choice, []Ranked) {
	if u.pod == nil || !l.mayKill(t) {
		return nil, nil
	}
	if l.unanswered(u) && l.surelyHelps(t, u.pod) {
		used := measure(t.Signal, l.in.Node.Layout, u.pod).usage
		return &choice{pod: u.pod, used: used, kind: KillLocally, reason: ReasonAlone, glass: u.pod.Governed}, l.rank(t)
	}
	if !l.exhaustedWithin(t, u.left+askTime) {
		return nil, nil
	}
	ranking := l.rank(t)
	return l.kill(t, ranking), ranking
}

// mayKill reports whether a kill would help, and none is under way.
func (l *look) mayKill(t Threshold) bool {
	return t.Hard() && killable(t.Signal) && !slices.ContainsFunc(l.Acts, func(a Act) bool { return a.local() })
}

// unanswered reports whether the request for a pod that may be removed was not answered, and the apiserver does not answer now.
func (l *look) unanswered(u *underWay) bool {
	if u.act == nil || l.in.Reachable || u.pod.Governed && u.act.Kind != Remove {
		return false
	}
	_, leaving := l.leaving[u.pod.UID]
	return !leaving
}

// ours reports whether what is under way is an ungoverned pod that was asked to go on account of pressure.
func (l *look) ours(u *underWay) bool {
	return u.act != nil && u.pod != nil && !u.pod.Governed && u.pod.Exempt == "" && u.act.Kind == Evict
}

// kill chooses the pod to kill beside what is under way: a pod that was asked to go anyway or else the next in order.
func (l *look) kill(t Threshold, ranking []Ranked) *choice {
	c := l.doomed(t, func(*Act) bool { return true })
	if c == nil {
		r := firstOf(ranking, func(r *Ranked) bool { return r.Exempt == "" && !r.Pod.Governed })
		if r == nil {
			return nil
		}
		c = &choice{pod: &r.Pod, used: r.Usage}
	}
	c.kind, c.reason = KillLocally, ReasonExhaustion
	return c
}

// finish returns a pod to kill that was to be gone long ago: its kubelet has not ended it, as when it observes
// removals late because it has just lost the apiserver. No other pod goes in its place before that was tried.
func (l *look) finish(t Threshold) *choice {
	if !l.mayKill(t) {
		return nil
	}
	c := l.doomed(t, func(a *Act) bool {
		grace, leaving := l.leaving[a.UID]
		return leaving && l.Clock-l.Departures[a.UID] >= max(grace, hardPatience)
	})
	if c != nil {
		c.kind, c.reason = KillLocally, ReasonOverdue
	}
	return c
}

// doomed returns a pod that was asked to go in such a way that it may be killed, and would help.
func (l *look) doomed(t Threshold, match func(*Act) bool) *choice {
	for i := range l.Acts {
		a, p := &l.Acts[i], l.pods[l.Acts[i].UID]
		if p == nil || a.Gone || p.Governed && a.Kind != Remove || !match(a) || !l.surelyHelps(t, p) {
			continue
		}
		// A governed one was given up as a last resort already.
		return &choice{pod: p, used: measure(t.Signal, l.in.Node.Layout, p).usage, glass: p.Governed}
	}
	return nil
}

// wait says why nothing is done about a threshold.
func (l *look) wait(t Threshold, reason ReliefReason, d time.Duration, message string) {
	l.waits = append(l.waits, Action{Kind: Wait, Reason: reason, For: max(d, 0), Threshold: &t, Message: fmt.Sprintf("%s; %s", l.breach(t), message)})
}
