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

// affordable refuses an expression whose cost grows beyond measure with the facts: three loops within each other, say.
func (l *Language) affordable(tree *cel.Ast) error {
	estimate, err := l.env.EstimateCost(tree, assumedSizes{})
	if err != nil {
		return fmt.Errorf("the cost of the expression cannot be estimated: %w", err)
	}
	if estimate.Max > estimateLimit {
		return fmt.Errorf("the expression may take too long: with %d entries in every list its cost is more than %d; use fewer loops within each other",
			assumedItems, uint64(estimateLimit))
	}
	return nil
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
