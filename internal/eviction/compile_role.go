package eviction

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"

	"usher.sh/usher/internal/expression"
)

func (c *compiler) role(path string, declared *v1alpha1.Role) *role {
	before := len(c.problems)
	if declared.Replace.Successor == "" {
		c.report(path+".replace.successor", "it must name what takes the member's place")
	}
	compiled := &role{
		declared: declared,
		evict:    c.rules(path+".evict.rules", declared.Evict.Rules),
		prepare:  c.preparations(path+".evict.prepare", declared.Evict.Prepare, false),
		replace:  c.rules(path+".replace.rules", declared.Replace.Rules),
		atOnce:   atOnce(declared),
		settle:   settle(declared),
	}
	if declared.Lost != nil {
		compiled.lost = &lost{prepare: c.preparations(path+".lost.prepare", declared.Lost.Prepare, true)}
		c.withoutPod(path+".lost.prepare", compiled.lost.prepare)
	}
	if declared.Evict.MinReady != nil {
		compiled.minReady = int(*declared.Evict.MinReady)
	}
	compiled.roster = compiled.minReady > 0 || compiled.asksFor("unready") || compiled.asksFor(expression.HereVariable)
	c.within(path+".evict.settle", compiled.settle, 0, maxSettle)
	c.together(path+".evict", compiled.evict, compiled.prepare)
	c.together(path+".replace", compiled.replace, nil)
	if kind := c.declared.Kind; declared.System != kind && kind != "" {
		c.problems = c.problems[:before] // every fact that another system does not tell
		c.report(path+".system", "the role is for %s, the policy's system is %s", declared.System, kind)
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

const (
	// defaultSettle is how long a persistent member counts after it was seen gone where its role does not say: as long as the
	// slowest of the usual failure detectors takes by default, which is Kafka's (replica.lag.time.max.ms). Those of MongoDB
	// (electionTimeoutMillis 10 s), Redis Cluster (cluster-node-timeout 15 s) and ArangoDB (5 s) are faster.
	defaultSettle = 30 * time.Second
	maxSettle     = 10 * time.Minute
)

// settle: of members that hold nothing there is nothing that a late failure detector could lose.
func settle(role *v1alpha1.Role) time.Duration {
	switch {
	case role.Evict.Settle != nil:
		return role.Evict.Settle.Duration
	case role.State == v1alpha1.StatePersistent:
		return defaultSettle
	}
	return 0
}

// asksFor reports whether a rule or a step, or what is said about it, speaks of a variable.
func (r *role) asksFor(variable string) bool {
	for _, rule := range slices.Concat(r.evict, r.replace) {
		if rule.passes.Names(variable) || rule.message.Names(variable) || rule.remedy.Names(variable) {
			return true
		}
	}
	return slices.ContainsFunc(r.prepare, func(p preparation) bool {
		return p.when.Names(variable) || p.remaining.Names(variable) || p.message.Names(variable)
	})
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
			passes:   c.expression(at+".expression", d.Expression, expression.Bool, expression.CostLimit),
			message:  c.template(at+".message", d.Message),
		}
		compiled.factual = compiled.passes != nil && !compiled.passes.NamesOnly("pod", "node", "here", "leaving", "unready", "preparing", "now")
		compiled.own = compiled.passes != nil && compiled.passes.NamesOnly("pod", "node", "now")
		if d.Remedy != "" {
			compiled.remedy = c.template(at+".remedy", d.Remedy)
		}
		rules = append(rules, compiled)
	}
	return rules
}

func (c *compiler) preparations(path string, declared []v1alpha1.Preparation, forLost bool) []preparation {
	var steps []preparation
	for i := range declared {
		at, d := fmt.Sprintf("%s[%d]", path, i), &declared[i]
		if _, ok := c.declared.Steps[d.Name]; !ok {
			c.report(at+".name", "the system has no step %q: %s", d.Name, c.knownSteps())
		}
		if !forLost && slices.Contains(c.declared.ForLost, d.Name) {
			c.report(at+".name", "step %s presumes that the node is proven off: name it in lost.prepare alone", d.Name)
		}
		step := preparation{
			name:     d.Name,
			when:     c.expression(at+".when", d.When, expression.Bool, expression.CostLimit),
			message:  c.template(at+".message", d.Message),
			expected: d.ExpectedDuration.Duration,
		}
		if d.Remaining != "" {
			step.remaining = c.expression(at+".remaining", d.Remaining, expression.Int, expression.CostLimit)
		}
		steps = append(steps, step)
	}
	return steps
}

// withoutPod refuses steps that look at the pod or at other members: the pod may be gone, and no other waits.
func (c *compiler) withoutPod(path string, steps []preparation) {
	over := []string{"member", "system", "now"}
	for i := range steps {
		s := &steps[i]
		names := s.when == nil || s.when.NamesOnly(over...)
		names = names && (s.remaining == nil || s.remaining.NamesOnly(over...))
		for _, e := range s.message.Expressions() {
			names = names && e.NamesOnly(over...)
		}
		if !names {
			c.report(fmt.Sprintf("%s[%d]", path, i), "it may use %s only: the pod may be gone", expression.Listed(over))
		}
	}
}

func (c *compiler) knownSteps() string {
	if len(c.declared.Steps) == 0 {
		return "it has none"
	}
	return "it has " + strings.Join(slices.Sorted(maps.Keys(c.declared.Steps)), ", ")
}
