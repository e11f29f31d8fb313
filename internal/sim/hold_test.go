package sim_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// TestHoldsEnd: a drain of a maintenance passes budgets only where administrators have limited how long they may hold one, after that long,
// and one pod at a time; and then no budget alone holds it. A drain of a person, or one without a limit, passes none.
func TestHoldsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, nodes := drawWorld(t)
		req, cfg := drawRequest(t, w, nodes), drawConfig(t)
		req.Deadline, req.DisableEviction, req.Persistent = time.Time{}, false, true
		if rapid.IntRange(0, 4).Draw(t, "by maintenance") > 0 {
			req.Self.ID = snapshot.MaintenancePrefix + "1"
		}
		maxHold := rapid.SampledFrom([]time.Duration{0, time.Minute, time.Minute, 40 * time.Minute}).Draw(t, "max hold")
		if maxHold > 0 {
			cfg.HoldLimits = map[string]snapshot.HoldLimit{"shop": {Policy: "tenants", MaxHold: maxHold}}
		}
		cfg.Judge = &req
		d := newDriver(sim.New(w.view(), cfg), req, cfg.Seed)
		d.behind = cfg.Lag != sim.Lag{}
		drive(t, d)
		safe(t, d)
		limited := maxHold > 0 && req.Self.OfMaintenance()
		must(t, d, limited || d.writes[drain.Delete] == 0, "%d pods were deleted, though nothing limits a hold", d.writes[drain.Delete])
		if maxHold != time.Minute || !limited {
			return
		}
		for i := range d.last.Pods {
			s := &d.last.Pods[i]
			must(t, d, !heldByBudgetsAlone(s.Blockers), "budgets hold %s for ever", s.Pod.Key())
		}
	})
}

func heldByBudgetsAlone(blockers []drain.Blocker) bool {
	for i := range blockers {
		switch blockers[i].Reason {
		case drain.BudgetExhausted, drain.BudgetNeverAllows, drain.BudgetNotObserved, drain.TwoBudgets:
		default:
			return false
		}
	}
	return len(blockers) > 0
}
