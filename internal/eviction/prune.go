package eviction

import (
	"slices"

	"usher.sh/usher/internal/expression"
)

// Uses returns what the policy's roles ask for of members and system.
func (p *Policy) Uses() expression.Uses {
	var uses expression.Uses
	add := func(e *expression.Expression) {
		if e != nil {
			uses = append(uses, e.Uses()...)
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
func (r *role) each(visit func(*expression.Expression)) {
	words := func(t *expression.Template) {
		if t == nil {
			return
		}
		for _, e := range t.Expressions() {
			visit(e)
		}
	}
	for _, rule := range slices.Concat(r.evict, r.replace) {
		visit(rule.passes)
		words(rule.message)
		words(rule.remedy)
	}
	for _, step := range slices.Concat(r.prepare, r.lost.steps()) {
		visit(step.when)
		visit(step.remaining)
		words(step.message)
	}
}

// Prune drops what no expression uses, in place: a system may answer a thousand times as much as its rules look at.
func (e *Evidence) Prune(uses expression.Uses) {
	e.System.Prune(uses, expression.SystemVariable)
	for _, facts := range e.Members {
		facts.Prune(uses, expression.MemberVariable)
	}
}

// Weight is about how many bytes of memory the evidence takes.
func (e *Evidence) Weight() int64 {
	weight := int64(len(e.Summary)+len(e.Error)) + e.System.Bytes()
	for id, facts := range e.Members {
		weight += int64(len(id)) + facts.Bytes()
	}
	return weight
}
