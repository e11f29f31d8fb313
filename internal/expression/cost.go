package expression

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
)

// Sizes that the estimate of an expression's cost takes facts to have: generous for what a system says of a member.
const (
	AssumedItems = 1_000
	assumedRunes = 100
)

// EstimateFactor is how many times its limit an expression may cost by estimate: most lists have far less than AssumedItems
// entries, and loops end early.
const EstimateFactor = 1_000

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
	if estimate.Max > CostLimit*EstimateFactor {
		return 0, fmt.Errorf("the expression may take too long: with %d entries in every list its cost is more than %d; use fewer loops within each other",
			AssumedItems, uint64(CostLimit*EstimateFactor))
	}
	return estimate.Max, nil
}

// EstimatedCost is what it may cost by estimate, where every list has AssumedItems entries; 0 of nil.
func (e *Expression) EstimatedCost() uint64 {
	if e == nil {
		return 0
	}
	return e.estimate
}

// EstimatedCost is that of all its expressions together; 0 of nil.
func (t *Template) EstimatedCost() uint64 {
	if t == nil {
		return 0
	}
	var total uint64
	for _, part := range t.parts {
		total += part.expression.EstimatedCost()
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
		return &cost.SizeEstimate{Max: AssumedItems}
	default:
		return nil
	}
}
