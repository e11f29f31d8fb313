package nodepressure

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// rank puts the pods in order for a threshold and says of each why it is passed over.
func (l *look) rank(t Threshold) []Ranked {
	passed, blocked, barred := map[types.UID]string{}, map[types.UID]string{}, map[types.UID]string{}
	for uid, p := range l.pods {
		if reason := l.useless(t, p); reason != "" {
			passed[uid] = reason
			continue
		}
		reason := l.blocked(t, p)
		if reason == "" {
			continue
		}
		blocked[uid] = reason
		// Below a hard threshold, a pod that may not go cannot spare Guaranteed pods any more: a verdict is about data, a class is
		// not. One passed over because a governed pod exceeds its request still does: both keep to theirs.
		if _, refused := l.refused(uid); t.Hard() && (refused || p.Governed) {
			barred[uid] = reason
		}
	}
	out := rank(l.in.Order, t.Signal, l.in.Node, l.in.Pods, passed, barred)
	for i := range out {
		if reason := blocked[out[i].Pod.UID]; reason != "" && out[i].Exempt == "" {
			out[i].Exempt = reason
		}
	}
	return out
}

// useless says why a pod is never chosen for a threshold, "" if it may be.
func (l *look) useless(t Threshold, p *Pod) string {
	_, leaving := l.leaving[p.UID]
	switch {
	case p.Exempt != "":
		return p.Exempt
	case leaving || l.acted(p.UID) != nil:
		return passedLeaving
	case !measured(t.Signal, p):
		return passedUnknown
	}
	at, limit := p.Usage.At, maxAge
	if onDisk(t.Signal) {
		limit = maxDiskAge
		if !p.Usage.DiskAt.IsZero() {
			at = p.Usage.DiskAt
		}
	}
	switch age := l.in.Now.Sub(at); {
	case age > limit:
		return fmt.Sprintf("what it uses was measured %s ago", short(age))
	case age < -maxAhead:
		return fmt.Sprintf("what it uses was measured %s in the future: the clock was set back", short(-age))
	}
	if !l.wouldHelp(t, p) {
		return tooLittle(t.Signal, l.in.Node.Layout, p)
	}
	return ""
}

// blocked says why a pod that would help may not go now, "" if it may.
func (l *look) blocked(t Threshold, p *Pod) string {
	if h, refused := l.refused(p.UID); refused {
		return "refused: " + h.Message
	}
	switch {
	case p.Governed && !l.in.Reachable:
		return "its policy's verdict cannot be read: the apiserver does not answer"
	case p.Governed && !t.Hard() && l.behind(p) != "":
		return l.behind(p)
	case comesBack(t, l.in.Node.Layout, p):
		return passedDaemonSet
	case !p.Governed && l.pushedOut(t, p):
		return "it stays within its request, and a governed pod that exceeds its own is left"
	}
	return ""
}

// behind says which other pod's preparation comes before a governed pod, "" if none does. One that is withdrawn does so while
// the withdrawal is under way: the pod would be refused a moment before its own preparation can be asked for.
func (l *look) behind(p *Pod) string {
	q := l.Requested
	switch {
	case q == nil || q.UID == p.UID:
		return ""
	case !q.Withdrawn:
		return fmt.Sprintf("%s/%s is being prepared to leave first", q.Namespace, q.Name)
	case l.in.Busy[q.UID]:
		return fmt.Sprintf("the request for %s/%s is being withdrawn first", q.Namespace, q.Name)
	}
	return ""
}

// pushedOut reports whether a pod that stays within its request would go in place of a governed pod that exceeds its own.
// A policy keeps a pod from leaving unsafely; it does not make its neighbours pay for what the pod uses. Such a governed
// pod is asked instead and, if its verdict says no, left to the kubelet, which checks no verdict.
func (l *look) pushedOut(t Threshold, p *Pod) bool {
	if measure(t.Signal, l.in.Node.Layout, p).exceeds() {
		return false
	}
	for _, other := range l.pods {
		if other.Governed && measure(t.Signal, l.in.Node.Layout, other).exceeds() && l.useless(t, other) == "" {
			return true
		}
	}
	return false
}

// wouldHelp reports whether a pod uses enough of what is short to make a difference, or may do so for all that is known.
func (l *look) wouldHelp(t Threshold, p *Pod) bool {
	return !measured(t.Signal, p) || helps(t, l.in.Node, p)
}

// surelyHelps reports whether a pod is known to use enough of what is short to make a difference.
func (l *look) surelyHelps(t Threshold, p *Pod) bool {
	return measured(t.Signal, p) && l.wouldHelp(t, p)
}

// choice is the pod that goes, and how.
type choice struct {
	pod    *Pod
	used   int64
	kind   ActionKind
	grace  time.Duration
	reason ReliefReason
	glass  bool
}

// choose returns the pod that goes for a threshold and how, nil if none does.
func (l *look) choose(t Threshold, ranking []Ranked) *choice {
	if !t.Hard() {
		if !l.in.Reachable {
			return nil
		}
		if r := firstOf(ranking, func(r *Ranked) bool { return r.Exempt == "" }); r != nil {
			return &choice{pod: &r.Pod, used: r.Usage, kind: Evict, grace: l.softGrace(&r.Pod), reason: ReasonSoft}
		}
		return nil
	}
	if r := firstOf(ranking, func(r *Ranked) bool { return r.Exempt == "" && !r.Pod.Governed }); r != nil {
		return l.remove(t, r)
	}
	if r := firstOf(ranking, func(r *Ranked) bool { return r.Exempt == "" }); r != nil {
		return &choice{pod: &r.Pod, used: r.Usage, kind: Evict, grace: l.softGrace(&r.Pod), reason: ReasonHard}
	}
	r := firstOf(ranking, func(r *Ranked) bool { return r.Exempt != ExemptGuaranteed && l.lastResort(t, &r.Pod) })
	if r == nil {
		return nil
	}
	c := l.remove(t, r)
	if c != nil {
		c.glass, c.reason = true, ReasonLastResort
	}
	return c
}

// lastResort reports whether a pod may go past its verdict and would help, as far as that was not refused as well.
func (l *look) lastResort(t Threshold, p *Pod) bool {
	if h, refused := l.refused(p.UID); refused && h.Forced {
		return false
	}
	return p.lastResort() && l.useless(t, p) == ""
}

func (p *Pod) lastResort() bool { return p.Governed && p.OnPressure == v1alpha1.PressureLastResort }

// remove returns how a pod goes below a hard threshold: deleted with a short grace or, if that takes too long or the
// apiserver does not answer, killed. Killing gives back no disk.
func (l *look) remove(t Threshold, r *Ranked) *choice {
	c := &choice{pod: &r.Pod, used: r.Usage, kind: Remove, grace: leastGrace, reason: ReasonHard}
	switch kills := killable(t.Signal); {
	case !l.in.Reachable && !kills:
		return nil
	case !l.in.Reachable:
		c.kind, c.grace, c.reason = KillLocally, 0, ReasonAlone
	case kills && l.exhaustedWithin(t, leastGrace+askTime):
		c.kind, c.grace, c.reason = KillLocally, 0, ReasonExhaustion
	}
	return c
}

// killable reports whether killing a pod's processes gives back what is short.
func killable(s Signal) bool { return s.Resource() == resourceMemory || s.Resource() == resourcePIDs }

// softGrace is 0 where a pod gets the grace of its own.
func (l *look) softGrace(p *Pod) time.Duration {
	longest := time.Duration(l.in.Config.EvictionMaxPodGracePeriod) * time.Second
	if longest <= 0 || p.Grace <= longest {
		return 0
	}
	return longest
}

func firstOf(ranking []Ranked, match func(*Ranked) bool) *Ranked {
	for i := range ranking {
		if match(&ranking[i]) {
			return &ranking[i]
		}
	}
	return nil
}
