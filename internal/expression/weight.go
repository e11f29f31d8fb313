package expression

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// The evaluator counts calls, and knows how much they work on only where the checker knows the types. What systems say has
// none: without weights, comparing two answers would cost as much as comparing two numbers, and twenty texts that are
// doubled one after the other would fill the memory before the limit on cost is noticed.

// runesPerCost is how much of a text one unit of cost handles, as the evaluator counts it elsewhere.
const runesPerCost = 10

// weights charges calls for the size of what they are given, and literals for the size of what they hold.
type weights struct{}

func costOptions() []cel.ProgramOption {
	return []cel.ProgramOption{cel.CostTracking(weights{}), cel.CustomDecoratorV2(weighLiterals)}
}

// CallCost is part of the evaluator's port. nil leaves a call to the evaluator's own count.
func (weights) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	var weight uint64
	switch function {
	case operators.Add:
		weight = weightOfSum(args, result)
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		weight = lighter(args)
	case operators.In:
		weight = weightOfSearch(args)
	case "slice":
		weight = length(result)
	case "flatten", "math.@max", "math.@min", literalFunction:
		weight = weigh(args[0], CostLimit)
	case overloads.Size, overloads.TypeConvertBytes, overloads.TypeConvertString, overloads.TypeConvertInt, overloads.TypeConvertUint,
		overloads.TypeConvertDouble, overloads.TypeConvertTimestamp, overloads.TypeConvertDuration:
		weight = weighText(args[0])
	default:
		return nil
	}
	weight++
	return &weight
}

// weightOfSum: a list is joined to another without looking at either, but the result holds both. Only the second is
// charged, since loops join one entry at a time.
func weightOfSum(args []ref.Val, result ref.Val) uint64 {
	if len(args) == 2 {
		if _, ok := args[1].(traits.Lister); ok {
			return weigh(args[1], CostLimit)
		}
	}
	return weighText(result)
}

func lighter(args []ref.Val) uint64 {
	if len(args) != 2 {
		return 0
	}
	return weigh(args[1], weigh(args[0], CostLimit))
}

func weightOfSearch(args []ref.Val) uint64 {
	if len(args) != 2 {
		return 0
	}
	if _, ok := args[1].(traits.Mapper); ok {
		return 0
	}
	entries := length(args[1])
	return entries * min(weigh(args[0], CostLimit), CostLimit)
}

func length(value ref.Val) uint64 {
	if list, ok := value.(traits.Lister); ok {
		if size, ok := list.Size().(types.Int); ok && size > 0 {
			return uint64(size)
		}
	}
	return 0
}

func weighText(value ref.Val) uint64 {
	switch v := value.(type) {
	case types.String:
		return uint64(len(v)) / runesPerCost
	case types.Bytes:
		return uint64(len(v)) / runesPerCost
	}
	return 0
}

// weigh counts the entries of lists and objects on all levels, and texts by their length. It stops at most.
func weigh(value ref.Val, most uint64) uint64 {
	total := 1 + weighText(value)
	add := func(part ref.Val) {
		if total < most {
			total += weigh(part, most-total)
		}
	}
	switch v := value.(type) {
	case traits.Mapper:
		for at := v.Iterator(); total < most && at.HasNext() == types.True; {
			key := at.Next()
			add(key)
			add(v.Get(key))
		}
	case traits.Lister:
		for at := v.Iterator(); total < most && at.HasNext() == types.True; {
			add(at.Next())
		}
	}
	return total
}

// literalFunction stands for the writing out of a list or an object.
const literalFunction = "literal"

// literal is a list or an object with several entries, each of which may be an answer of any size.
type literal struct {
	interpreter.InterpretableConstructor
}

func weighLiterals(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	constructor, ok := node.(interpreter.InterpretableConstructor)
	if !ok || len(constructor.InitVals()) < 2 {
		return node, nil
	}
	return literal{constructor}, nil
}

// Exec is part of the evaluator's port.
func (l literal) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	value := l.InterpretableConstructor.Exec(frame)
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalUnary(frame, l.ID(), l, value, value)
	}
	return value
}

// Eval is part of the evaluator's port.
func (l literal) Eval(activation interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(activation, l.Exec)
}

// Function is part of the evaluator's port.
func (literal) Function() string { return literalFunction }

// OverloadID is part of the evaluator's port.
func (literal) OverloadID() string { return literalFunction }
