package nodepressure

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Written is something that an agent of this node may have written for a pod. It stands until it is taken back.
type Written struct {
	UID types.UID
	// Kind is how it is taken back: Withdraw or Unbreak.
	Kind ActionKind
	// Value is the annotation's; set for Unbreak.
	Value string
	// Later: that was tried a moment ago, and is tried again later.
	Later bool
	// Refused: the apiserver refused it when it was tried last, and may do so until the pod is gone.
	Refused bool
	// Late: it was taken back, and stands only if what was asked for before is carried out late.
	Late bool
}

// undecided is how long at most what an agent before this one asked for stands while thresholds are met and the grace of none
// has passed: undoing a preparation to begin it anew costs more than to let it go on.
const undecided = 10 * time.Minute

// asks reports whether a pod's preparation is to be asked for: one pod's at a time, and never beside an action on the pod,
// which may be the withdrawal.
func (l *look) asks(c *choice) bool { return l.next(c) && !l.in.Busy[c.pod.UID] }

// next reports whether a pod is the next to be prepared.
func (l *look) next(c *choice) bool {
	q := l.Requested
	return c.pod.Governed && c.kind == Evict && (q == nil || q.Withdrawn && q.UID == c.pod.UID)
}

// early reports whether what is under way on a pod is waited for: it would be refused a moment before its preparation can be
// asked for, and then not be prepared until that refusal ends. No other pod goes in its place for that moment. Below a hard
// threshold there is no time for it.
func (l *look) early(t Threshold, c *choice) bool {
	return !t.Hard() && l.next(c) && l.in.Busy[c.pod.UID]
}

// followRequest forgets the pod that is prepared once it is gone, or once its request is seen taken back or that was refused.
// What stands then, or comes late, is taken back again like what an agent before this one asked for, and holds no other pod until
// that succeeds.
func (l *look) followRequest() {
	q := l.Requested
	if q == nil {
		return
	}
	stands := slices.ContainsFunc(l.in.Written, func(w Written) bool {
		return w.UID == q.UID && w.Kind == Withdraw && !w.Refused && !w.Late
	})
	if l.pods[q.UID] == nil || q.Withdrawn && !stands {
		l.Requested = nil
	}
}

// takeBack takes back what no pressure stands behind, and tries again until it does not stand any more.
func (l *look) takeBack() {
	if !l.in.Reachable {
		return
	}
	l.withdraw()
	for i := range l.in.Written {
		w := &l.in.Written[i]
		p := l.pods[w.UID]
		if p == nil || w.Later || l.in.Busy[w.UID] || l.decidedOn(w.UID) {
			continue
		}
		if a := (Action{Kind: w.Kind, Pod: named(p), Value: w.Value, Reason: ReasonRelieved}); l.outlived(w, p, &a) {
			l.actions = append(l.actions, a)
		}
	}
}

// withdraw takes back the request for the pod that is prepared when nothing is short any more, or when the pod will never be
// allowed to go.
func (l *look) withdraw() {
	q := l.Requested
	if q == nil || q.Withdrawn || l.in.Busy[q.UID] {
		return
	}
	_, refused := l.refused(q.UID)
	never := refused && l.in.Refused[q.UID].Never
	if len(l.due) > 0 && !never {
		return
	}
	a := Action{
		Kind: Withdraw, Pod: &Pod{Namespace: q.Namespace, Name: q.Name, UID: q.UID},
		Reason: ReasonRelieved, Message: "the node is not short of anything any more",
	}
	if never {
		a.Reason, a.Message = ReasonRefused, l.in.Refused[q.UID].Message
	}
	l.actions = append(l.actions, a)
	l.Requested = &Requested{UID: q.UID, Namespace: q.Namespace, Name: q.Name, Withdrawn: true}
}

// outlived reports whether what was written for a pod has no pressure behind it any more, and words that.
func (l *look) outlived(w *Written, p *Pod, a *Action) bool {
	_, leaving := l.leaving[p.UID]
	if w.Kind == Unbreak {
		a.Message = "the pod has not gone, and the annotation would let every eviction of it through"
		return !leaving
	}
	if q := l.Requested; q != nil && q.UID == p.UID {
		a.Message = "the withdrawal of its request is not confirmed"
		return q.Withdrawn
	}
	a.Message = "no pressure stands behind what was asked for earlier"
	decided := len(l.Breaches) == 0 || len(l.due) > 0 || l.Clock >= undecided
	return decided && !leaving
}

// decidedOn reports whether this look has an action on a pod already.
func (l *look) decidedOn(uid types.UID) bool {
	return slices.ContainsFunc(l.actions, func(a Action) bool { return a.Pod != nil && a.Pod.UID == uid })
}

func named(p *Pod) *Pod { return &Pod{Namespace: p.Namespace, Name: p.Name, UID: p.UID} }
