package drain

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
)

// Charges joins the ledgers of drains that run in one process: what one of them has sent, and a budget's status does not show yet, counts
// for all. Each ledger compares that with its own view, since one may see the budget's status before another does. It is not safe for
// concurrent use: deciding and entering what was decided is one step, or two drains use the same room of a budget.
type Charges struct {
	ledgers []*Ledger
	former  *Ledger                    // what those have sent that were taken out; nil before the first
	written map[string]map[tryKey]*try // what each of them has written that may not be seen yet, by the id of its drain
}

// Join adds a ledger. What others have sent counts for it, also of those that were taken out before.
func (c *Charges) Join(l *Ledger) {
	if c.former != nil {
		l.takeOver(c.former)
	}
	for _, other := range c.ledgers {
		l.takeOver(other)
	}
	c.ledgers, l.charges = append(c.ledgers, l), c
}

// takeOver enters what another ledger has of evictions, scalings and holds.
func (l *Ledger) takeOver(other *Ledger) {
	maps.Copy(l.uncounted, other.uncounted)
	maps.Copy(l.scales, other.scales)
	l.joinHolds(other)
}

// Part takes a ledger out, of a drain that has ended or was left. What it has sent counts on: what has no answer may be carried out yet.
func (c *Charges) Part(l *Ledger, now time.Time) {
	for _, t := range l.tries {
		if t.done.IsZero() {
			t.done, t.answer = now, answers.Answer{Code: answers.Unavailable}
		}
	}
	c.ledgers, l.charges = slices.DeleteFunc(c.ledgers, func(other *Ledger) bool { return other == l }), nil
	if c.former == nil {
		c.former = NewLedger()
	}
	c.former.takeOver(l)
	for key, t := range l.tries {
		if key.kind == LowerCost {
			c.former.tries[key] = t
		}
	}
	c.former.expire(now)
	c.keepWritten(l, now)
}

// awaited are the kinds of actions whose effect a drain waits for before it ends: it is undone, which it cannot be before it is seen.
var awaited = []Kind{Cordon, LowerCost, Scale, ScaleMin, Ask}

// keepWritten keeps what a ledger that is taken out has written, for the next one of its drain: a view that is read anew may not show it yet.
func (c *Charges) keepWritten(l *Ledger, now time.Time) {
	maps.DeleteFunc(c.written, func(_ string, tries map[tryKey]*try) bool {
		maps.DeleteFunc(tries, func(_ tryKey, t *try) bool { return !now.Before(t.done.Add(unseenFor)) })
		return len(tries) == 0
	})
	if l.self.ID == "" {
		return
	}
	tries := map[tryKey]*try{}
	for key, t := range l.tries {
		if slices.Contains(awaited, key.kind) && now.Before(t.done.Add(unseenFor)) {
			tries[key] = t
		}
	}
	if c.written == nil {
		c.written = map[string]map[tryKey]*try{}
	}
	c.written[l.self.ID] = tries
}

// goOnFrom enters what the last ledger of the same drain has written and may not be seen yet, if it was one of this process.
func (l *Ledger) goOnFrom(c *Charges, now time.Time) {
	if c == nil {
		return
	}
	for key, t := range c.written[l.self.ID] {
		if l.tries[key] == nil && now.Before(t.done.Add(unseenFor)) {
			l.tries[key] = t
		}
	}
	delete(c.written, l.self.ID)
}

// formerFor is how long what a drain that has ended knew of holds, and of deletion costs that it has lowered, counts for the drains that
// go on or begin later.
const formerFor = 24 * time.Hour

// expire forgets what no budget's status lags behind any more, and what is known of holds and deletion costs after formerFor.
func (l *Ledger) expire(now time.Time) {
	over := func(at time.Time, after time.Duration) bool { return !now.Before(at.Add(after)) }
	sent := func(_ types.UID, t *try) bool { return over(t.done, disruptedFor) }
	maps.DeleteFunc(l.uncounted, sent)
	maps.DeleteFunc(l.scales, sent)
	maps.DeleteFunc(l.tries, func(_ tryKey, t *try) bool { return over(t.done, formerFor) })
	maps.DeleteFunc(l.evictedUnder, func(_ types.UID, at time.Time) bool { return over(at, formerFor) })
	maps.DeleteFunc(l.passages, func(_ types.UID, last *passage) bool { return over(last.at, formerFor) })
}

// sharing returns the ledgers of this process for which an action of this one counts.
func (l *Ledger) sharing() []*Ledger {
	if l.charges == nil {
		return []*Ledger{l}
	}
	return l.charges.ledgers
}

// sharingOrFormer returns the ledgers of this process, and what is known of those that were taken out.
func (l *Ledger) sharingOrFormer() []*Ledger {
	if l.charges == nil || l.charges.former == nil {
		return l.sharing()
	}
	return append(slices.Clone(l.charges.ledgers), l.charges.former)
}

// charge enters an eviction, or a deletion past a budget, that uses it.
func (l *Ledger) charge(t *try) {
	for _, other := range l.sharing() {
		other.uncounted[t.action.Target()] = t
	}
}

// release takes an eviction back that has used nothing.
func (l *Ledger) release(t *try) {
	for _, other := range l.sharing() {
		if uid := t.action.Target(); other.uncounted[uid] == t {
			delete(other.uncounted, uid)
		}
	}
}

// scaling enters that a Deployment is scaled. Scaling down asks no budget, but what it removes is missing under the budget.
func (l *Ledger) scaling(t *try) {
	if t.action.Kind != Scale {
		return
	}
	for _, other := range l.sharing() {
		other.scales[t.action.Target()] = t
	}
}

// byOthers reports whether another drain of this process uses the budget.
func (l *Ledger) byOthers(budget types.UID) bool {
	for uid, t := range l.uncounted {
		if t.budget.uid == budget && l.tries[tryKey{t.action.Kind, uid}] != t {
			return true
		}
	}
	return false
}
