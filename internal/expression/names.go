package expression

import (
	"errors"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// factsOf lists the facts that an expression names, as it names them: "member.shards", "pod.labels.app".
func factsOf(tree *cel.Ast) []string {
	var facts []string
	for _, match := range ast.MatchDescendants(ast.NavigateAST(tree.NativeRep()), ast.KindMatcher(ast.SelectKind)) {
		if name := path(match); name != "" && !slices.Contains(facts, name) {
			facts = append(facts, name)
		}
	}
	return facts
}

// variablesOf lists the variables that an expression names.
func variablesOf(tree *cel.Ast) []string {
	var names []string
	for _, match := range ast.MatchDescendants(ast.NavigateAST(tree.NativeRep()), ast.KindMatcher(ast.IdentKind)) {
		names = append(names, match.AsIdent())
	}
	return names
}

func loopsOf(tree *cel.Ast) int {
	return len(ast.MatchDescendants(ast.NavigateAST(tree.NativeRep()), ast.KindMatcher(ast.ComprehensionKind)))
}

// separatesAtLength reports whether entries are joined by more than a few characters: as many times as there are entries,
// which may be more than memory holds.
func separatesAtLength(tree *cel.Ast) bool {
	return slices.ContainsFunc(ast.MatchDescendants(ast.NavigateAST(tree.NativeRep()), ast.FunctionMatcher("join")), func(call ast.NavigableExpr) bool {
		args := call.AsCall().Args()
		if len(args) == 0 {
			return false
		}
		text, ok := writtenText(args[len(args)-1])
		return !ok || len(text) > separatorLimit
	})
}

var errAnnotationKeys = errors.New(`the keys of node.annotations must be written out: node.annotations["example.com/key"], "example.com/key" in node.annotations`)

// annotationsField is the fact of a node of which an expression sees what it names.
const annotationsField = "annotations"

// annotationKeys lists the keys of the node's annotations that an expression writes out; false: it asks for them in another way.
func annotationKeys(tree *cel.Ast) (keys []string, ok bool) {
	for _, match := range ast.MatchDescendants(ast.NavigateAST(tree.NativeRep()), ast.KindMatcher(ast.SelectKind)) {
		if path(match) != NodeVariable+"."+annotationsField {
			continue
		}
		parent, _ := match.Parent()
		key, ok := writtenKey(parent, match)
		if !ok {
			return nil, false
		}
		keys = append(keys, key)
	}
	return keys, true
}

// writtenKey returns the key that the parent of a map looks up in it.
func writtenKey(parent, of ast.NavigableExpr) (string, bool) {
	switch {
	case parent == nil:
		return "", false
	case parent.Kind() == ast.SelectKind:
		return parent.AsSelect().FieldName(), true
	case parent.Kind() != ast.CallKind:
		return "", false
	}
	args := parent.AsCall().Args()
	switch name := parent.AsCall().FunctionName(); {
	case name == operators.Index && args[0].ID() == of.ID():
		return writtenText(args[1])
	case name == operators.In && args[1].ID() == of.ID():
		return writtenText(args[0])
	}
	return "", false
}

func writtenText(expr ast.Expr) (string, bool) {
	if expr.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := expr.AsLiteral().Value().(string)
	return text, ok
}

// NamesOnly reports whether the expression names no other variable of the language.
func (e *Expression) NamesOnly(allowed ...string) bool {
	return !slices.ContainsFunc(e.variables, func(name string) bool {
		return slices.Contains(variableNames, name) && !slices.Contains(allowed, name)
	})
}

// Names reports whether the expression names the variable; nil names none.
func (e *Expression) Names(variable string) bool {
	return e != nil && slices.Contains(e.variables, variable)
}

// NamesAllBut reports whether the expression names anything of a variable but one of its facts; nil names nothing.
func (e *Expression) NamesAllBut(variable, fact string) bool {
	return e != nil && slices.ContainsFunc(e.paths, func(path string) bool {
		root, of, _ := strings.Cut(path, ".")
		return root == variable && of != fact
	})
}

// Names reports whether a value of the template names the variable; nil names none.
func (t *Template) Names(variable string) bool {
	return t != nil && slices.ContainsFunc(t.parts, func(p part) bool { return p.expression.Names(variable) })
}

// path returns "" for what does not begin at a variable.
func path(expr ast.Expr) string {
	switch expr.Kind() {
	case ast.IdentKind:
		return expr.AsIdent()
	case ast.SelectKind:
		if operand := path(expr.AsSelect().Operand()); operand != "" {
			return operand + "." + expr.AsSelect().FieldName()
		}
		return ""
	default:
		return ""
	}
}

// named returns the fact that ends with key, or key itself where none or several do.
func named(facts []string, key string) string {
	found := key
	for _, fact := range facts {
		if !strings.HasSuffix(fact, "."+key) {
			continue
		}
		if found != key {
			return key
		}
		found = fact
	}
	return found
}
