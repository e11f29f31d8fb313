package sim_test

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// removal is an eviction or a deletion of a pod that budgets count as healthy.
type removal struct {
	action           drain.Action
	decided, settled int // the steps at which it was decided and answered
	answer           answers.Code
}

// removals are those of one drain that were answered, in their order among the steps of all drains that run together.
type removals struct {
	steps *int // nil: of one that runs alone, of which none are kept
	open  map[removed]int
	all   []removal
}

// removed is what is under way once at a time.
type removed struct {
	kind drain.Kind
	pod  types.UID
}

func (r *removals) decided(a drain.Action) {
	if r.steps == nil || a.Kind != drain.Evict && a.Kind != drain.Delete {
		return
	}
	if r.open == nil {
		r.open = map[removed]int{}
	}
	*r.steps++
	r.open[removed{a.Kind, a.Pod.UID}] = *r.steps
}

func (r *removals) answered(a drain.Action, answer answers.Answer, healthy bool) {
	if r.steps == nil || !healthy {
		return
	}
	*r.steps++
	r.all = append(r.all, removal{a, r.open[removed{a.Kind, a.Pod.UID}], *r.steps, answer.Code})
}

// crossing counts the deletions of healthy pods that were decided and carried out while an eviction under a budget of theirs was on its way that was
// refused: no drain could know of them when it decided upon that eviction.
func (all *together) crossing() int {
	var refused, deleted []removal
	for _, d := range all.drains {
		for _, r := range d.removals.all {
			switch {
			case r.action.Kind == drain.Evict && r.answer == answers.RefusedByBudget:
				refused = append(refused, r)
			case r.action.Kind == drain.Delete && r.answer == answers.Accepted:
				deleted = append(deleted, r)
			}
		}
	}
	c, n := all.drains[0].sim.Truth().Cluster, 0
	for _, del := range deleted {
		if slices.ContainsFunc(refused, func(ev removal) bool {
			return ev.decided < del.decided && del.settled < ev.settled && shareABudget(c, ev.action.Pod, del.action.Pod)
		}) {
			n++
		}
	}
	return n
}

func shareABudget(c *snapshot.Cluster, one, other *snapshot.Pod) bool {
	return slices.ContainsFunc(c.BudgetsFor(one), func(b *snapshot.Budget) bool { return b.Matches(other) })
}
