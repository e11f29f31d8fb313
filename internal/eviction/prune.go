package eviction

import (
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
)

// Uses are the facts that a policy's roles ask for, as paths: "system.status.down", "member.shelf". A path stands for all below it.
type Uses []string

// Uses returns what the policy's roles ask for of members and system.
func (p *Policy) Uses() Uses {
	var uses Uses
	add := func(e *Expression) {
		if e != nil {
			uses = append(uses, e.uses...)
		}
	}
	for i := range p.entries {
		if p.entries[i].role != nil {
			p.entries[i].role.each(add)
		}
	}
	slices.Sort(uses)
	return slices.Compact(uses)
}

// each visits every expression of the role.
func (r *role) each(visit func(*Expression)) {
	words := func(t *Template) {
		if t == nil {
			return
		}
		for _, part := range t.parts {
			visit(part.expression)
		}
	}
	for _, rule := range slices.Concat(r.evict, r.replace) {
		visit(rule.passes)
		words(rule.message)
		words(rule.remedy)
	}
	for _, step := range r.prepare {
		visit(step.when)
		visit(step.remaining)
		words(step.message)
	}
}

// usesOf lists the longest paths that an expression selects of member and system.
func usesOf(tree *cel.Ast) []string {
	var uses []string
	for _, match := range ast.MatchDescendants(ast.NavigateAST(tree.NativeRep()), func(e ast.NavigableExpr) bool {
		return e.Kind() == ast.SelectKind || e.Kind() == ast.IdentKind
	}) {
		if parent, ok := match.Parent(); ok && parent.Kind() == ast.SelectKind {
			continue
		}
		name := path(match)
		if root, _, _ := strings.Cut(name, "."); root == systemType || root == memberType {
			uses = append(uses, name)
		}
	}
	return uses
}

// Prune drops what no expression uses, in place: a system may answer a thousand times as much as its rules look at.
func (e *Evidence) Prune(uses Uses) {
	e.System.prune(uses, systemType)
	for _, facts := range e.Members {
		facts.prune(uses, memberType)
	}
}

func (f Facts) prune(uses Uses, root string) {
	if slices.Contains(uses, root) {
		return
	}
	for name, value := range f {
		kept, needed := pruned(value, uses, root+"."+name)
		if needed {
			f[name] = kept
		} else {
			delete(f, name)
		}
	}
}

// pruned returns what is needed of a value; false: nothing.
func pruned(value any, uses Uses, at string) (any, bool) {
	if slices.Contains(uses, at) {
		return value, true
	}
	below := at + "."
	if !slices.ContainsFunc(uses, func(use string) bool { return strings.HasPrefix(use, below) }) {
		return nil, false
	}
	object, ok := value.(map[string]any)
	if !ok {
		return value, true // a rule asks for a field of what is no object, which is for the rule to fail on
	}
	kept := map[string]any{}
	for name, inner := range maps.All(object) {
		if inner, needed := pruned(inner, uses, below+name); needed {
			kept[name] = inner
		}
	}
	return kept, true
}

// Weight is about how many bytes of memory the evidence takes.
func (e *Evidence) Weight() int64 {
	weight := int64(len(e.Summary)+len(e.Error)) + bytesOf(map[string]any(e.System))
	for id, facts := range e.Members {
		weight += int64(len(id)) + bytesOf(map[string]any(facts))
	}
	return weight
}

// Bytes of values as Go lays them out: a map of up to eight entries has one group of slots, an interface two words.
const (
	wordBytes  = 16
	groupSize  = 7
	groupBytes = 8*2*wordBytes + 8
	mapBytes   = 48
)

func bytesOf(value any) int64 {
	switch v := value.(type) {
	case string:
		return wordBytes + int64(len(v))
	case Facts:
		return bytesOf(map[string]any(v))
	case map[string]any:
		weight := int64(mapBytes + (len(v)+groupSize-1)/groupSize*groupBytes)
		for name, inner := range v {
			weight += int64(len(name)) + bytesOf(inner)
		}
		return weight
	case []any:
		weight := int64(wordBytes * (1 + cap(v)))
		for _, inner := range v {
			weight += bytesOf(inner)
		}
		return weight
	case []string:
		weight := int64(wordBytes * (1 + cap(v)))
		for _, text := range v {
			weight += int64(len(text))
		}
		return weight
	}
	return wordBytes
}
