package drain

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// passage is a pod that was deleted past its budgets, since they had held a maintenance for as long as they may.
type passage struct {
	pod     types.UID
	at      time.Time
	gone    time.Time // when it was seen gone; zero until then
	healthy int32     // how many pods the budget counted as healthy before; 0 of what is no budget
}

// holdEnd is when budgets hold a pod no longer, and by which limit.
type holdEnd struct {
	at    time.Time // zero: unknown
	limit snapshot.HoldLimit
}

// limitHold deletes a pod that nothing but its budgets holds, once they have held a maintenance for as long as administrators let what its
// namespace declares. Before that it says until when they hold it. Without such a limit nothing changes: only the manager's drains of
// maintenances have one, since only it reads them.
func (d *decider) limitHold(s *PodStatus, ref budgetRef, since time.Time) {
	p := s.Pod
	if !d.limited(p) || !heldByBudgets(s.Blockers) {
		return
	}
	s.Held = true
	end := d.holdEnds(p, since)
	switch {
	case end.at.IsZero():
		return
	case d.Now.Before(end.at) || !d.mayDelete(p):
		d.holdsUntil(s.Blockers, end)
		return
	}
	words, shared := d.endsHold(end), d.sharedBy(p)
	d.use(ref.uid)
	for key, healthy := range shared {
		d.passages[key] = &passage{pod: p.UID, at: d.Now, healthy: healthy}
	}
	d.act(Action{Kind: Delete, Pod: p, Grace: d.graceFor(p), HoldExpired: words, Why: words, budget: ref, passes: shared})
	s.State, s.Blockers = Evicting, nil
}

// limited reports whether administrators have limited how long budgets may hold this drain in the pod's namespace. One that stays, or may, is never
// evicted: no budget holds it.
func (d *decider) limited(p *snapshot.Pod) bool {
	return d.req.Self.OfMaintenance() && d.HoldLimits[p.Namespace].MaxHold > 0 && d.mayRemove(p)
}

// heldByBudgets reports whether a limit of holds may end all that holds a pod, and a budget is among it. Objections, admission and missing
// rights stand; so does a turn or a surge that comes by itself.
func heldByBudgets(blockers []Blocker) bool {
	budgets := 0
	for i := range blockers {
		switch b := &blockers[i]; b.Reason { // every other reason stands
		case BudgetExhausted, BudgetNeverAllows, BudgetNotObserved, TwoBudgets:
			budgets++
		case AskedFor, SystemDecides: // the limit ends what a system may hold, too: admission judges that
		case SurgeStarting, ReplacementPending, RolloutUnderway:
			if !b.Dead {
				return false
			}
		default:
			return false
		}
	}
	return budgets > 0
}

// holdEnds returns when the hold of a pod ends that was wanted since then: maxHold after this drain has first wanted it, by its record on the
// node. What is not on record holds for a while longer: the first refusal that this process has seen, and an eviction that a budget has let
// through, which shows that it lets the pods go. Of the pods of one workload, or under one budget, one goes at a time.
func (d *decider) holdEnds(p *snapshot.Pod, since time.Time) holdEnd {
	end := holdEnd{limit: d.HoldLimits[p.Namespace]}
	record := d.led.records[p.Node]
	if record == nil {
		return end
	}
	began := snapshot.Believed(record.Since, d.Now)
	if began.IsZero() {
		return end
	}
	limit := end.limit.MaxHold
	refused := d.led.refused[p.UID]
	if refused.IsZero() {
		refused = d.Now
	}
	at := later(later(later(began, p.Created), since).Add(limit), refused.Add(min(limit, patience)))
	for key, healthy := range d.sharedBy(p) {
		if last := d.led.evictedUnder[key]; !last.IsZero() {
			at = later(at, last.Add(limit))
		}
		if d.used[key] > 0 { // by what is on its way: the budget lets its pods go
			at = later(at, d.Now.Add(limit))
		}
		if last := d.passages[key]; last != nil && last.pod != p.UID {
			at = later(at, d.afterPassage(last, healthy, min(limit, patience)))
		}
	}
	end.at = at
	return end
}

// afterPassage returns when the next pod may pass what one has passed before: once that one was seen gone, and the budget counts as many
// healthy pods as before it. Either is waited for a bounded time: what keeps a pod from ending is its owner's, too.
func (d *decider) afterPassage(last *passage, healthy int32, bound time.Duration) time.Time {
	before, counted := d.Cluster.Pod(last.pod), last.gone.Add(countedAfter)
	switch {
	case last.gone.IsZero() && before != nil && before.Terminating():
		ends := before.Deletion // its grace is its owner's, and may be of years
		if latest := last.at.Add(patience); latest.Before(ends) {
			ends = latest
		}
		return ends.Add(max(countedAfter, bound))
	case last.gone.IsZero(): // its deletion was not seen; the drain that has sent it may have ended
		return last.at.Add(disruptedFor)
	case healthy >= last.healthy || d.Now.Before(counted):
		return counted
	}
	return last.gone.Add(max(countedAfter, bound))
}

// countedAfter is how soon after a pod is gone its budget's status surely shows that.
const countedAfter = 5 * time.Second

// sharedBy returns what pods share of which one may pass its budgets at a time: the budgets, with how many healthy pods they count, and the
// workload.
func (d *decider) sharedBy(p *snapshot.Pod) map[types.UID]int32 {
	shared := map[types.UID]int32{}
	for _, b := range d.Cluster.BudgetsFor(p) {
		shared[b.UID] = b.Current
	}
	if w := d.workloadOf(p); w != nil {
		shared[w.UID] = 0
	} else if p.Owner.UID != "" {
		shared[p.Owner.UID] = 0
	}
	return shared
}

// holdsUntil says until when a hold lasts: the drain goes on until then.
func (d *decider) holdsUntil(blockers []Blocker, end holdEnd) {
	d.wake(end.at)
	for i := range blockers {
		b := &blockers[i]
		b.Dead = false
		if b.Retry.IsZero() || end.at.Before(b.Retry) {
			b.Retry = end.at
		}
		if !d.verbose || b.Reason == AskedFor || b.Reason == SystemDecides {
			continue
		}
		when := "it is deleted at"
		if !d.Now.Before(end.at) {
			when = "its deletion, which failed before, is tried again; it was due at"
		}
		b.Message += fmt.Sprintf("; by maxHold %s of ClusterEvictionPolicy %s %s %s", short(end.limit.MaxHold), end.limit.Policy, when, end.at.UTC().Format(time.RFC3339))
	}
}

// endsHold says who passes what, and why.
func (d *decider) endsHold(end holdEnd) string {
	return text.Line(fmt.Sprintf("%s was held for longer than maxHold %s of ClusterEvictionPolicy %s", d.req.Self.By, end.limit.MaxHold, end.limit.Policy))
}

// noteRefused remembers since when budgets hold pods of a maintenance's drain.
func (l *Ledger) noteRefused(s *PodStatus, now time.Time) {
	if (s.Held || heldByBudgets(s.Blockers)) && l.refused[s.Pod.UID].IsZero() {
		l.refused[s.Pod.UID] = now
	}
}

// pass enters what a deletion passes, for all drains of the process.
func (l *Ledger) pass(a Action, now time.Time) {
	for key, healthy := range a.passes {
		for _, other := range l.sharing() {
			other.passages[key] = &passage{pod: a.Pod.UID, at: now, healthy: healthy}
		}
	}
}

// notPassed takes back what was not deleted.
func (l *Ledger) notPassed(a Action) {
	for key := range a.passes {
		for _, other := range l.sharing() {
			if last := other.passages[key]; last != nil && last.pod == a.Pod.UID {
				delete(other.passages, key)
			}
		}
	}
}

// observeHolds notes which pods that passed budgets are gone, and forgets those for which no other one waits any more.
func (l *Ledger) observeHolds(view snapshot.View) {
	maps.DeleteFunc(l.passages, func(_ types.UID, last *passage) bool {
		if last.gone.IsZero() && view.Cluster.Pod(last.pod) == nil {
			last.gone = view.Now
		}
		return !last.gone.IsZero() && view.Now.After(last.gone.Add(patience))
	})
	maps.DeleteFunc(l.refused, func(pod types.UID, _ time.Time) bool { return view.Cluster.Pod(pod) == nil })
}

// underBudget enters that a budget has let a pod go.
func (l *Ledger) underBudget(budget types.UID, now time.Time) {
	if budget == "" {
		return
	}
	for _, other := range l.sharing() {
		other.evictedUnder[budget] = now
	}
}

// joinHolds takes over what another ledger has of holds.
func (l *Ledger) joinHolds(other *Ledger) {
	for key, last := range other.passages {
		l.passages[key] = new(*last)
	}
	for budget, at := range other.evictedUnder {
		l.evictedUnder[budget] = later(l.evictedUnder[budget], at)
	}
}
