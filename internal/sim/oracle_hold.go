package sim

import (
	"time"

	"usher.sh/usher/internal/snapshot"
)

// mayPass checks that a pod is deleted past its budgets only for a maintenance, after as long as administrators have set, and one at a time
// under each budget.
func (j *oracle) mayPass(s *Sim, p *snapshot.Pod) {
	limit, limited := s.cfg.HoldLimits[p.Namespace]
	switch {
	case !limited || !j.req.Self.OfMaintenance():
		j.report(s, "deleted %s past its budgets, which nothing limits", p.Key())
	case s.now.Before(j.req.Started.Add(limit.MaxHold)):
		j.report(s, "deleted %s past its budgets after %s, before maxHold %s", p.Key(), s.now.Sub(j.req.Started), limit.MaxHold)
	}
	for _, b := range s.truth.BudgetsFor(p) {
		if last := s.truth.Pod(j.held[b.UID]); last != nil && last.UID != p.UID && !j.lingers(s, last) {
			j.report(s, "deleted %s past budget %s while %s, which has passed it before, is still there", p.Key(), b.Key(), last.Key())
		}
		j.held[b.UID] = p.UID
	}
}

// lingers reports whether a pod should have ended some time ago. No other one waits for it for ever.
func (j *oracle) lingers(s *Sim, p *snapshot.Pod) bool {
	return p.Terminating() && s.now.After(p.Deletion.Add(30*time.Second))
}
