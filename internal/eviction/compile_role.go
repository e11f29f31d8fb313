package eviction

import (
	"fmt"
	"slices"
	"strings"

	"usher.sh/usher/api/v1alpha1"
)

func (c *compiler) role(path string, declared *v1alpha1.Role) *role {
	before := len(c.problems)
	if declared.Replace.By == "" {
		c.report(path+".replace.by", "it must say who takes the member's place")
	}
	compiled := &role{
		declared: declared,
		evict:    c.rules(path+".evict.rules", declared.Evict.Rules),
		prepare:  c.preparations(path+".evict.prepare", declared.Evict.Prepare),
		replace:  c.rules(path+".replace.rules", declared.Replace.Rules),
		atOnce:   atOnce(declared),
	}
	c.together(path+".evict", compiled.evict, compiled.prepare)
	c.together(path+".replace", compiled.replace, nil)
	if declared.System != c.kind && c.kind != "" {
		c.problems = c.problems[:before] // every fact that another system does not tell
		c.report(path+".system", "the role speaks of %s, the policy's system is %s", declared.System, c.kind)
	}
	return compiled
}

// atOnce: members that hold nothing may leave together.
func atOnce(role *v1alpha1.Role) int {
	switch {
	case role.Evict.AtOnce != nil:
		return int(*role.Evict.AtOnce)
	case role.State == v1alpha1.StateNone:
		return 0
	}
	return 1
}

func (c *compiler) rules(path string, declared []v1alpha1.Rule) []rule {
	var rules []rule
	for i := range declared {
		at, d := fmt.Sprintf("%s[%d]", path, i), &declared[i]
		if slices.ContainsFunc(declared[:i], func(other v1alpha1.Rule) bool { return other.Name == d.Name }) {
			c.report(at+".name", "another rule has the name %q", d.Name)
		}
		compiled := rule{
			declared: d,
			passes:   c.expression(at+".expression", d.Expression, Bool, costLimit),
			message:  c.template(at+".message", d.Message),
		}
		compiled.factual = compiled.passes != nil && !compiled.passes.speaksOnlyOf("pod", "node", "leaving", "preparing", "now")
		if d.WayOut != "" {
			compiled.wayOut = c.template(at+".wayOut", d.WayOut)
		}
		rules = append(rules, compiled)
	}
	return rules
}

func (c *compiler) preparations(path string, declared []v1alpha1.Preparation) []preparation {
	var steps []preparation
	for i := range declared {
		at, d := fmt.Sprintf("%s[%d]", path, i), &declared[i]
		if !slices.Contains(c.steps, d.Name) {
			c.report(at+".name", "the system has no step %q: %s", d.Name, c.knownSteps())
		}
		step := preparation{
			name:    d.Name,
			when:    c.expression(at+".when", d.When, Bool, costLimit),
			message: c.template(at+".message", d.Message),
			takes:   d.Takes.Duration,
		}
		if d.Left != "" {
			step.left = c.expression(at+".left", d.Left, Int, costLimit)
		}
		steps = append(steps, step)
	}
	return steps
}

func (c *compiler) knownSteps() string {
	if len(c.steps) == 0 {
		return "it has none"
	}
	return "it has " + strings.Join(c.steps, ", ")
}
