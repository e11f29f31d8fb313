package eviction

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
)

// Sizes that the estimate of an expression's cost takes facts to have: generous for what a system says of a member.
const (
	assumedItems = 1_000
	assumedRunes = 100
)

// estimated is how many times its limit an expression may cost by estimate: most lists have far less than assumedItems
// entries, and loops end early.
const estimated = 1_000

// affordable returns an expression's cost by estimate. It refuses one whose cost grows beyond measure with the facts (three
// loops within each other, say), and one that costs too much whatever the facts are.
func (l *Language) affordable(tree *cel.Ast, limit uint64) (uint64, error) {
	estimate, err := l.env.EstimateCost(tree, assumedSizes{})
	if err != nil {
		return 0, fmt.Errorf("the cost of the expression cannot be estimated: %w", err)
	}
	if estimate.Min > limit {
		return 0, fmt.Errorf("the expression takes too long: its cost is %d at least, and %d is allowed", estimate.Min, limit)
	}
	// One expression may be as dear as all of its kind together.
	if estimate.Max > costLimit*estimated {
		return 0, fmt.Errorf("the expression may take too long: with %d entries in every list its cost is more than %d; use fewer loops within each other",
			assumedItems, uint64(costLimit*estimated))
	}
	return estimate.Max, nil
}

// together refuses what each for itself is affordable and all of which would be evaluated for one verdict.
func (c *compiler) together(path string, rules []rule, steps []preparation) {
	var asked, said uint64
	for i := range rules {
		asked += rules[i].passes.estimatedCost()
		said += rules[i].message.estimatedCost() + rules[i].remedy.estimatedCost()
	}
	for i := range steps {
		asked += steps[i].when.estimatedCost()
		said += steps[i].message.estimatedCost()
	}
	if asked > verdictEffort*estimated {
		c.report(path, "its expressions may take too long together: with %d entries in every list their cost is more than %d; use fewer loops within each other",
			assumedItems, uint64(verdictEffort*estimated))
	}
	if said > wordsEffort*estimated {
		c.report(path, "its messages may take too long together: with %d entries in every list their cost is more than %d; let them say less",
			assumedItems, uint64(wordsEffort*estimated))
	}
}

func (e *Expression) estimatedCost() uint64 {
	if e == nil {
		return 0
	}
	return e.estimate
}

func (t *Template) estimatedCost() uint64 {
	if t == nil {
		return 0
	}
	var total uint64
	for _, part := range t.parts {
		total += part.expression.estimatedCost()
	}
	return total
}

type assumedSizes struct{}

func (assumedSizes) EstimateCallCost(_, _ string, _ *cost.AstNode, _ []cost.AstNode) *cost.CallEstimate {
	return nil
}

func (assumedSizes) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	switch node.Type().Kind() {
	case types.StringKind, types.BytesKind:
		return &cost.SizeEstimate{Max: assumedRunes}
	case types.ListKind, types.MapKind, types.DynKind, types.StructKind:
		return &cost.SizeEstimate{Max: assumedItems}
	default:
		return nil
	}
}
