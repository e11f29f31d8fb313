package agent

import (
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/agent/machine"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/nodepressure"
)

// ledger is what was asked of pods and not yet seen done. It belongs to the loop; losing it loses nothing that the API does
// not say as well.
type ledger struct {
	machine *machine.Machine
	refused map[types.UID]nodepressure.Refusal
	leaving map[types.UID]nodepressure.Leaving
	busy    map[types.UID]int // actions under way
	written written
}

func newLedger(m *machine.Machine) *ledger {
	return &ledger{
		machine: m, refused: map[types.UID]nodepressure.Refusal{}, leaving: map[types.UID]nodepressure.Leaving{},
		busy: map[types.UID]int{}, written: newWritten(),
	}
}

// begin notes an action on a pod. One that is being asked to go counts as leaving until it is answered.
func (l *ledger) begin(a *nodepressure.Action, now time.Time) {
	l.busy[a.Pod.UID]++
	l.written.begin(a)
	switch a.Kind {
	case nodepressure.Evict, nodepressure.Remove, nodepressure.KillLocally:
		grace := a.Grace
		if grace == 0 && a.Kind == nodepressure.Evict {
			grace = a.Pod.Grace
		}
		delete(l.refused, a.Pod.UID)
		l.leaving[a.Pod.UID] = nodepressure.Leaving{UID: a.Pod.UID, Since: now, Grace: grace, Local: a.Kind == nodepressure.KillLocally}
	case nodepressure.Request, nodepressure.Withdraw, nodepressure.Unbreak, nodepressure.Wait, nodepressure.Say:
	}
}

// How long a refusal stands where the answer does not say.
const (
	refusalStands   = 10 * time.Second
	forbiddenStands = time.Minute
)

// end enters an answer.
func (l *ledger) end(o *outcome, now time.Time) {
	l.written.end(o, now)
	if l.busy[o.action.Pod.UID]--; l.busy[o.action.Pod.UID] <= 0 {
		delete(l.busy, o.action.Pod.UID)
	}
	if k := o.action.Kind; k != nodepressure.Evict && k != nodepressure.Remove && k != nodepressure.KillLocally {
		return
	}
	uid := o.action.Pod.UID
	stands := refusalStands
	switch o.answer.Code {
	case answers.Accepted, answers.Gone:
		return
	case answers.Forbidden, answers.Rejected:
		stands = forbiddenStands
	case answers.Conflict, answers.RefusedByBudget, answers.RefusedForNow, answers.SeveralBudgets, answers.Denied,
		answers.NamespaceTerminating, answers.Unavailable:
	}
	delete(l.leaving, uid)
	if o.answer.Code == answers.Unavailable && !webhookDown(o.answer) {
		return // it may have been carried out: no other pod is taken in its place
	}
	if o.action.Kind == nodepressure.KillLocally && o.local == nil {
		return // its containers may be started again, and are then like any other's
	}
	l.refused[uid] = nodepressure.Refusal{
		At: now, Reason: string(o.answer.Code), Message: o.answer.Message,
		LookAgain: now.Add(max(stands, o.answer.RetryAfter)), Never: strings.Contains(o.answer.Message, eviction.MayNever),
	}
}

// settle forgets pods that are gone. While the apiserver does not answer, its silence says nothing: then the pods' cgroups
// do.
func (l *ledger) settle(here map[types.UID]*resident, reachable bool) {
	for uid := range l.leaving {
		r, known := here[uid]
		if !known || !reachable && l.ended(r) {
			delete(l.leaving, uid)
		}
	}
	for uid := range l.refused {
		if _, known := here[uid]; !known {
			delete(l.refused, uid)
		}
	}
	l.written.settle(here)
}

func (l *ledger) occupied() map[types.UID]bool {
	all := make(map[types.UID]bool, len(l.busy))
	for uid := range l.busy {
		all[uid] = true
	}
	return all
}

func (l *ledger) ended(r *resident) bool {
	_, err := l.machine.Cgroup(r.cgroup)
	return errors.Is(err, machine.ErrNoCgroup)
}

func (l *ledger) list() []nodepressure.Leaving {
	var all []nodepressure.Leaving
	for _, leaving := range l.leaving {
		all = append(all, leaving)
	}
	return all
}
