package eviction

import (
	"cmp"

	"usher.sh/usher/internal/expression"
)

// Declaration is what a kind of system brings to a policy of one of its systems.
type Declaration struct {
	// Kind is its name, "" where the policy's spec declares no system, or several.
	Kind string
	// Hosts says that ids are those of hosts: members of several roles have the same one where they are on one host. Otherwise no two members
	// of a policy share an id.
	Hosts bool
	// Schema is what rules may look at.
	Schema expression.Schema
	// Steps are what roles may name in evict.prepare and in lost.prepare, with a sentence each. ForLost are those of them that presume that the node is off.
	Steps   map[string]string
	ForLost []string
	// Texts are the expressions of the spec that the kind evaluates by itself. They are checked where the policy is written.
	Texts []Text
}

// Text is an expression in a policy's spec beside its rules, or a template with {{expressions}}.
type Text struct {
	// Path is where it stands: "spec.system.http.facts[0].url".
	Path string
	Text string
	// Template says that it is one.
	Template bool
	// Type is that of an expression's value; "": any.
	Type expression.Type
	// Over are the variables that it may speak of.
	Over []string
}

func (c *compiler) texts(texts []Text) {
	for _, t := range texts {
		if t.Template {
			c.templateOver(t)
		} else if e := c.expression(t.Path, t.Text, cmp.Or(t.Type, expression.Dynamic), expression.CostLimit); e != nil && !e.NamesOnly(t.Over...) {
			c.report(t.Path, "it may use %s only", expression.Listed(t.Over))
		}
	}
}

// templateOver compiles a template; nil: it cannot be.
func (c *compiler) templateOver(t Text) *expression.Template {
	template := c.template(t.Path, t.Text)
	if template == nil {
		return nil
	}
	for _, e := range template.Expressions() {
		if !e.NamesOnly(t.Over...) {
			c.report(t.Path, "{{%s}} uses something that is not known yet when the request is made: it may use %s", e.Text, expression.Listed(t.Over))
		}
	}
	return template
}
