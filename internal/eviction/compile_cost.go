package eviction

import (
	"usher.sh/usher/internal/expression"
)

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
