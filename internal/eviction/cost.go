package eviction

import "usher.sh/usher/internal/expression"

// Limits of what is evaluated together. What reaches verdictEffort has kept a processor busy for about half a second: an
// apiserver that waits for an answer waits ten.
const (
	verdictEffort = 4 * expression.CostLimit
	wordsEffort   = verdictEffort / 10
	lookCost      = 6 * verdictEffort
)

// NewCostBudget is for one look at a policy: the verdicts on all of its members, or all questions to its system.
func NewCostBudget() *expression.CostBudget { return expression.NewCostBudget(lookCost, nil) }

// together refuses what each for itself is affordable and all of which would be evaluated for one verdict.
func (c *compiler) together(path string, rules []rule, steps []preparation) {
	var asked, said uint64
	for i := range rules {
		asked += rules[i].passes.EstimatedCost()
		said += rules[i].message.EstimatedCost() + rules[i].remedy.EstimatedCost()
	}
	for i := range steps {
		asked += steps[i].when.EstimatedCost()
		said += steps[i].message.EstimatedCost()
	}
	if asked > verdictEffort*expression.EstimateFactor {
		c.report(path, "its expressions may take too long together: with %d entries in every list their cost is more than %d; use fewer loops within each other",
			expression.AssumedItems, uint64(verdictEffort*expression.EstimateFactor))
	}
	if said > wordsEffort*expression.EstimateFactor {
		c.report(path, "its messages may take too long together: with %d entries in every list their cost is more than %d; let them say less",
			expression.AssumedItems, uint64(wordsEffort*expression.EstimateFactor))
	}
}
