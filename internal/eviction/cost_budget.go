package eviction

import (
	"errors"

	"cel.dev/cel-go/cel"
)

// Limits of what is evaluated together. What reaches verdictEffort has kept a processor busy for about half a second: an
// apiserver that waits for an answer waits ten.
const (
	verdictEffort = 4 * costLimit
	wordsEffort   = verdictEffort / 10
	lookCost      = 6 * verdictEffort
)

// CostBudget is what expressions may still cost together, in the evaluator's own count. It ends by counting and not by a
// clock, so that the same facts always give the same verdict. It is for one goroutine; nil stands for no limit.
type CostBudget struct {
	left   uint64
	within *CostBudget
}

// NewCostBudget is for one look at a policy: the verdicts on all of its members, or all questions to its system.
func NewCostBudget() *CostBudget { return &CostBudget{left: lookCost} }

var errSpent = errors.New("what was evaluated before it has used up the time for all; make the expressions cheaper, or the lists that they look at shorter")

func (e *CostBudget) exhausted() bool {
	for ; e != nil; e = e.within {
		if e.left == 0 {
			return true
		}
	}
	return false
}

func (e *CostBudget) charge(cost uint64) {
	for ; e != nil; e = e.within {
		e.left -= min(e.left, cost)
	}
}

// costOf is what an evaluation has cost, also where it was broken off.
func costOf(details *cel.EvalDetails) uint64 {
	if details == nil || details.ActualCost() == nil {
		return 0
	}
	return *details.ActualCost()
}
