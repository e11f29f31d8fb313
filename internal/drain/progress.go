package drain

import (
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// moves reports whether the pod is leaving its node or will be asked to before long, so that later ones wait for it. A pod
// that is held until a person, a webhook or another controller does something is waited for by none: nothing says when.
func (d *decider) moves(q *queued, t *target) bool {
	p := q.pod
	switch {
	case p.Terminating():
		return d.ends(p, t.node)
	case d.asked(p) != nil:
		return true
	case d.turnedDown(p) || len(q.filtered.objections) > 0:
		return false
	case d.mayAsk(p):
		e := d.Cluster.EvictionOf(p)
		return e == nil || !neverSays(e)
	}
	return d.budgetMoves(p)
}

// ends reports whether a terminating pod is ending by itself: the kubelet answers and is not late, and no finalizer keeps
// what has ended.
func (d *decider) ends(p *snapshot.Pod, n *snapshot.Node) bool {
	return d.whyStillThere(p, n).Reason == Leaving
}

// runs reports whether a pod may still need what serves its node: its containers run, as far as is known.
func (d *decider) runs(p *snapshot.Pod, n *snapshot.Node) bool {
	if !p.Terminating() {
		return !p.Finished()
	}
	switch d.whyStillThere(p, n).Reason {
	case HeldByFinalizers:
		return !p.Finished()
	case NodeUnreachable:
		return false
	default:
		return true
	}
}

// turnedDown reports whether the last attempt to remove the pod was refused by something other than a budget.
func (d *decider) turnedDown(p *snapshot.Pod) bool {
	t := d.lastTry(p)
	if t == nil || t.done.IsZero() {
		return false
	}
	switch t.answer.Code {
	case answers.Forbidden, answers.Rejected, answers.Denied, answers.NamespaceTerminating:
		return true
	case answers.Accepted, answers.Gone, answers.Conflict, answers.RefusedByBudget, answers.RefusedForNow, answers.SeveralBudgets, answers.Unavailable:
	}
	return false
}

// inTurn reports whether a pod is waited for by those that its namespace's owner has put behind it: other than moves, also
// while a budget that may allow it again holds it.
func (d *decider) inTurn(q *queued, t *target) bool {
	if d.moves(q, t) {
		return true
	}
	budgets := d.Cluster.BudgetsFor(q.pod)
	return len(budgets) == 1 && !q.pod.Terminating() && !d.turnedDown(q.pod) && len(q.filtered.objections) == 0 && !d.neverAllows(q.pod, budgets[0])
}

// budgetMoves reports whether the pod's budgets let it go, or will once a surge is ready. What an exhausted budget holds is
// waited for by none: it may be held for as long as its owner likes.
func (d *decider) budgetMoves(p *snapshot.Pod) bool {
	if d.req.DisableEviction || budgetless(p) {
		return true
	}
	if w := d.surgeable(p); w != nil && d.ours(w.Surge) {
		return !d.surgeFailed(w)
	}
	budgets := d.Cluster.BudgetsFor(p)
	switch len(budgets) {
	case 0:
		return true
	case 1:
	default:
		return d.surgeMoves(p, len(budgets))
	}
	b := budgets[0]
	switch {
	case unreadyMayGo(p, b) || !b.Observed:
		return true
	case d.neverAllows(p, b):
		return d.surgeMoves(p, 1)
	}
	return d.allowed(p, b) > 0
}

func (d *decider) surgeMoves(p *snapshot.Pod, budgets int) bool {
	if !d.maySurge(p, budgets) {
		return false
	}
	return !d.surgeFailed(d.surgeable(p))
}

// surgeFailed reports whether this drain's surge of a Deployment, if there is one, waits for nothing any more: where a single
// replacement gets ready, the surge goes on within surgePatience.
func (d *decider) surgeFailed(w *snapshot.Workload) bool {
	return w != nil && d.ours(w.Surge) && !d.Now.Before(d.lastStep(w).Add(surgePatience))
}
