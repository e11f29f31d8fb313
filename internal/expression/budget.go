package expression

import (
	"errors"

	"cel.dev/cel-go/cel"
)

// CostBudget is what expressions may still cost together, in the evaluator's own count. It ends by counting and not by a
// clock, so that the same facts always give the same verdict. It is for one goroutine; nil stands for no limit.
type CostBudget struct {
	left   uint64
	within *CostBudget
}

// NewCostBudget allows cost, and what is charged to it is charged to within as well, unless that is nil.
func NewCostBudget(cost uint64, within *CostBudget) *CostBudget {
	return &CostBudget{left: cost, within: within}
}

// Left is what may still be spent.
func (e *CostBudget) Left() uint64 { return e.left }

var errSpent = errors.New("what was evaluated before it has used up the time for all; make the expressions cheaper, or the lists that they look at shorter")

// Exhausted reports whether nothing is left in it or in what it is within.
func (e *CostBudget) Exhausted() bool {
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
