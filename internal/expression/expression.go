package expression

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/interpreter"
)

// Expression is a compiled CEL expression. It may be used by several goroutines at once.
type Expression struct {
	Text      string
	want      Type
	limit     uint64 // of its cost
	estimate  uint64 // of its cost, where every list has AssumedItems
	program   cel.Program
	facts     []string
	variables []string
	paths     []string // the longest ones
	uses      Uses     // the facts that it reads, with all below them
	keys      []string // of the node's annotations that it reads
}

// MissingError says that an expression needs a fact that is not known.
type MissingError struct{ Fact string }

func (e *MissingError) Error() string { return fmt.Sprintf("%q is not known", e.Fact) }

// Eval returns the value as Go has it: bool, int64, uint64, float64, string, time.Time, time.Duration, []any,
// map[string]any or nil. It ends within a cost limit, and is charged to the scope's CostBudget. A *MissingError says that a
// fact is not known; other errors are sentences as well.
func (e *Expression) Eval(scope *Scope) (any, error) {
	return e.EvalWith(scope.Variables(), scope.CostBudget)
}

// Uses are the facts that it reads.
func (e *Expression) Uses() Uses { return e.uses }

// EvalWith is Eval for variables that Scope.Variables has made, so that many expressions share them.
func (e *Expression) EvalWith(variables map[string]any, costs *CostBudget) (any, error) {
	if costs.Exhausted() {
		return nil, errSpent
	}
	value, details, err := e.program.Eval(e.narrowed(variables))
	cost := costOf(details)
	costs.charge(cost)
	if err != nil {
		return nil, e.explain(err)
	}
	reading := &conversion{left: e.limit - min(e.limit, cost)}
	result, err := reading.native(value, maxDepth)
	costs.charge(e.limit - min(e.limit, cost) - reading.left)
	if err != nil {
		return nil, err
	}
	if !e.want.holds(result) {
		return nil, fmt.Errorf("the value is %s and not of type %s", Print(result), e.want)
	}
	return result, nil
}

// narrowed returns the variables without those of the node's annotations whose keys the expression does not write out: they are other
// clients' and may hold what a policy's author has no right to read.
func (e *Expression) narrowed(variables map[string]any) map[string]any {
	node, _ := variables[NodeVariable].(map[string]any)
	all, _ := node[annotationsField].(map[string]string)
	if len(all) == 0 {
		return variables
	}
	written := map[string]string{}
	for _, key := range e.keys {
		if value, ok := all[key]; ok {
			written[key] = value
		}
	}
	node, variables = maps.Clone(node), maps.Clone(variables)
	node[annotationsField], variables[NodeVariable] = written, node
	return variables
}

var errTooLong = errors.New("it takes too long: the evaluation was stopped at its cost limit")

// explain makes a sentence of what the evaluator says. It has no type for a missing key, only words.
func (e *Expression) explain(err error) error {
	if cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err); ok && cancelled.Cause == interpreter.CostLimitExceeded {
		return errTooLong
	}
	text := err.Error()
	for _, prefix := range []string{"no such key: ", "no such attribute(s): "} {
		if _, key, ok := strings.Cut(text, prefix); ok {
			return &MissingError{Fact: named(e.facts, key)}
		}
	}
	return fmt.Errorf("it cannot be evaluated: %w", err)
}

// issueText says what the compiler found, each with its place.
func issueText(issues *cel.Issues) string {
	var said []string
	for _, issue := range issues.Errors() {
		place := ""
		if column := issue.Location.Column(); column >= 0 {
			place = fmt.Sprintf(" (at character %d)", column+1)
			if line := issue.Location.Line(); line > 1 {
				place = fmt.Sprintf(" (in line %d at character %d)", line, column+1)
			}
		}
		said = append(said, plain(issue.Message)+place)
	}
	return strings.Join(said, "; ")
}

// plain turns the compiler's most frequent words into Usher's.
func plain(message string) string {
	if _, rest, ok := strings.Cut(message, "undefined field "); ok {
		return "there is no fact " + rest
	}
	if _, rest, ok := strings.Cut(message, "undeclared reference to "); ok {
		name, _, _ := strings.Cut(rest, " (in container")
		return "there is no " + name + ": expressions speak of " + Listed(variableNames)
	}
	return message
}
