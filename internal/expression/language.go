package expression

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"
)

// Language compiles expressions over the facts of one schema. It may be used by several goroutines at once.
type Language struct {
	env *cel.Env
}

// NewLanguage makes the language of a schema.
func NewLanguage(schema Schema) (*Language, error) {
	provider, err := newFactTypes(schema)
	if err != nil {
		return nil, err
	}
	env, err := cel.NewEnv(append(provider.options(), languageOptions()...)...)
	if err != nil {
		return nil, fmt.Errorf("making the language of rules: %w", err)
	}
	return &Language{env: env}, nil
}

// Limits of the cost of one expression, in the evaluator's units. One over a list of ten thousand entries stays below CostLimit, and
// what reaches it has kept a processor busy for about a tenth of a second. Each value of a template has WordsLimit. IDLimit is for
// what is asked of every pod that is looked at: enough to take a name to pieces.
const (
	CostLimit  = 1_000_000
	WordsLimit = CostLimit / 10
	IDLimit    = CostLimit / 200
	nodeLimit  = 10_000
	regexLimit = 1_000
)

// Limits of what is compiled: the checker writes types out, and lists that lie within lists have long ones.
const (
	depthLimit     = 64
	loopLimit      = 16
	separatorLimit = 16
	// TextLimit is for all expressions of a policy in bytes, of which each counts for TextOverhead more than it has.
	TextLimit    = 128 << 10
	TextOverhead = 64
)

func languageOptions() []cel.EnvOption {
	return []cel.EnvOption{
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ExpressionNodeLimit(nodeLimit),
		cel.ParserRecursionLimit(depthLimit),
		cel.RegexProgramSizeLimit(regexLimit),
		ext.Math(),
		ext.Lists(ext.ListsVersion(1)),
		ext.Strings(),
		// One call of these can ask for any amount of memory, which no limit on cost sees in time.
		without("replace", "string_replace_string_string", cel.StringType, cel.StringType, cel.StringType),
		without("format", "string_format", cel.StringType, cel.ListType(cel.DynType)),
	}
}

// without takes a function of strings out of the language. The library wants one of its overloads named.
func without(function, overload string, args ...*cel.Type) cel.EnvOption {
	return cel.Function(function, cel.DisableDeclaration(true), cel.MemberOverload(overload, args, cel.StringType))
}

// Expression compiles and type-checks text. The value must be of type want; Dynamic: of any. Errors are sentences for the
// author.
func (l *Language) Expression(text string, want Type) (*Expression, error) {
	return l.Limited(text, want, CostLimit)
}

// Limited is Expression for one that may cost as much as limit.
func (l *Language) Limited(text string, want Type, limit uint64) (*Expression, error) {
	tree, issues := l.env.Parse(text)
	if issues.Err() != nil {
		return nil, errors.New(issueText(issues))
	}
	if loops := loopsOf(tree); loops > loopLimit {
		return nil, fmt.Errorf("the expression has %d loops (map, filter, all, exists and the like), and %d are allowed", loops, loopLimit)
	}
	if separatesAtLength(tree) {
		return nil, fmt.Errorf("what join puts between entries must be written out, in %d characters at most", separatorLimit)
	}
	keys, ok := annotationKeys(tree)
	if !ok {
		return nil, errAnnotationKeys
	}
	tree, issues = l.env.Check(tree)
	if issues.Err() != nil {
		return nil, errors.New(issueText(issues))
	}
	if want != Dynamic && !want.admits(tree.OutputType()) {
		return nil, fmt.Errorf("the value is of type %s and must be of type %s", tree.OutputType(), want)
	}
	estimate, err := l.affordable(tree, limit)
	if err != nil {
		return nil, err
	}
	program, err := l.env.Program(tree, append(costOptions(), cel.CostLimit(limit), cel.EvalOptions(cel.OptOptimize))...)
	if err != nil {
		return nil, fmt.Errorf("the expression cannot be used: %w", err)
	}
	paths := pathsOf(tree)
	return &Expression{
		Text: text, want: want, limit: limit, estimate: estimate, program: program, facts: factsOf(tree), variables: variablesOf(tree),
		paths: paths, uses: usesOf(paths), keys: keys,
	}, nil
}
