package nodepressure

import (
	"fmt"
	"strings"
	"time"
)

// breach says how a signal stands to its threshold.
func (l *look) breach(t Threshold) string {
	r := l.in.Node.Readings[t.Signal]
	below, more := t.Below.Of(r.Capacity), t.MinReclaim.Of(r.Capacity)
	limit := fmt.Sprintf("its %s threshold of %s", t.Kind(), t.Signal.Amount(below))
	if t.Met(r) {
		return fmt.Sprintf("%s is %s, below %s", t.Signal, t.Signal.under(r.Available, below), limit)
	}
	return fmt.Sprintf("%s is %s, not yet %s above %s", t.Signal, t.Signal.under(r.Available, below+more), t.Signal.Amount(more), limit)
}

// pressures says all that is short.
func (l *look) pressures() string {
	var out []string
	for _, t := range l.met {
		if !l.harder(t) {
			out = append(out, l.breach(t))
		}
	}
	if len(out) == 0 {
		return "thresholds were met within the transition period"
	}
	return strings.Join(out, "; ")
}

// sentence says why a pod goes, and how.
func (l *look) sentence(t Threshold, c *choice) string {
	who := fmt.Sprintf("%s uses %s", c.pod.Key(), uses(t.Signal, entry{standing: standing{usage: c.used}}))
	how := ""
	switch {
	case c.reason == ReasonExhaustion:
		left, _ := l.exhaustion(t)
		how = fmt.Sprintf("nothing is left in %s if it goes on like this, so it is killed", short(left))
	case c.reason == ReasonAlone:
		how = "the apiserver does not answer, so it is killed on the node"
	case c.reason == ReasonOverdue:
		how = fmt.Sprintf("it is leaving since %s and its kubelet has not ended it, so it is killed on the node", short(l.Clock-l.Departures[c.pod.UID]))
	case c.glass && c.kind == KillLocally:
		how = "no other pod can help, and its policy gives it up as a last resort, so it is killed on the node"
	case c.glass:
		how = "no other pod can help, and its policy gives it up as a last resort"
	case c.kind == Remove:
		how = fmt.Sprintf("it gets %s to shut down", short(c.grace))
	default:
		how = "it is asked to leave under its budgets"
	}
	return fmt.Sprintf("%s; %s; %s", l.breach(t), who, how)
}

// waitForCandidate says why no pod goes.
func (l *look) waitForCandidate(t Threshold, ranking []Ranked) {
	if !l.in.Reachable && (!t.Hard() || !killable(t.Signal)) {
		message := "the apiserver does not answer, and pods are only evicted with it above a hard threshold"
		if t.Hard() {
			message = "the apiserver does not answer, and killing a pod on the node gives back no disk"
		}
		l.wait(t, ReasonUnreachable, 0, message)
		return
	}
	var why []string
	for i := range ranking {
		if len(why) == 3 {
			why = append(why, fmt.Sprintf("and %d more", len(ranking)-i))
			break
		}
		why = append(why, fmt.Sprintf("%s (%s)", ranking[i].Pod.Key(), ranking[i].Exempt))
	}
	message := "there is no pod on the node"
	if len(why) > 0 {
		message = "no pod may go: " + strings.Join(why, ", ")
	}
	l.wait(t, ReasonNoCandidate, l.firstHold(), message)
	l.waits[len(l.waits)-1].Ranking = ranking
}

// firstHold is when the first refusal ends.
func (l *look) firstHold() time.Duration {
	least := time.Duration(0)
	for _, h := range l.Holds {
		if left := h.Until - l.Clock; left > 0 && (least == 0 || left < least) {
			least = left
		}
	}
	return least
}

// short writes a time for people: tenths below ten seconds, whole seconds above.
func short(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
