package eviction

import (
	"usher.sh/usher/internal/expression"
)

// Limits of what is evaluated together. What reaches verdictEffort has kept a processor busy for about half a second: an
// apiserver that waits for an answer waits ten.
const (
	verdictEffort = 4 * expression.CostLimit
	wordsEffort   = verdictEffort / 10
	lookCost      = 6 * verdictEffort
)

// NewCostBudget is for one look at a policy: the verdicts on all of its members, or all questions to its system.
func NewCostBudget() *expression.CostBudget { return expression.NewCostBudget(lookCost, nil) }
