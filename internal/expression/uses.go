package expression

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
)

// Uses are the facts that a policy's roles ask for, as paths: "system.status.down", "member.shelf". A path stands for all below it.
type Uses []string

// usesOf are those of the paths that an expression selects that are of member and system.
func usesOf(paths []string) Uses {
	var uses Uses
	for _, name := range paths {
		if root, _, _ := strings.Cut(name, "."); root == SystemVariable || root == MemberVariable {
			uses = append(uses, name)
		}
	}
	return uses
}

// pathsOf lists the longest paths that an expression selects, at each place.
func pathsOf(tree *cel.Ast) []string {
	var paths []string
	for _, match := range ast.MatchDescendants(ast.NavigateAST(tree.NativeRep()), func(e ast.NavigableExpr) bool {
		return e.Kind() == ast.SelectKind || e.Kind() == ast.IdentKind
	}) {
		if parent, ok := match.Parent(); ok && parent.Kind() == ast.SelectKind {
			continue
		}
		paths = append(paths, path(match))
	}
	return paths
}
