package eviction

import "errors"

// Language compiles expressions over the facts of one schema. It may be used by several goroutines at once.
type Language struct{ schema Schema }

// Expression is a compiled CEL expression. It may be used by several goroutines at once.
type Expression struct{ Text string }

// NewLanguage makes the language of a schema.
func NewLanguage(schema Schema) (*Language, error) { return &Language{schema: schema}, nil }

// Expression compiles and type-checks text. The value must be of type want; Dynamic: of any. Errors are sentences for the
// author.
func (l *Language) Expression(text string, want Type) (*Expression, error) {
	return nil, errors.New("not built")
}

// Eval returns the value as Go has it: bool, int64, float64, string, time.Time, time.Duration, []any, map[string]any or
// nil. It ends within a cost limit. A *MissingError says that a fact is not known; other errors are sentences as well.
func (e *Expression) Eval(scope *Scope) (any, error) { return nil, errors.New("not built") }

// MissingError says that an expression needs a fact that is not known.
type MissingError struct{ Fact string }

func (e *MissingError) Error() string { return e.Fact + " is not known" }
