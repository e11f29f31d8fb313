package eviction

import (
	"fmt"
	"slices"

	"usher.sh/usher/api/v1alpha1"
)

// declareHTTP closes the schema of an http system: its facts are those that the policy asks for.
func (c *compiler) declareHTTP(http *v1alpha1.HTTP, schema Schema) Schema {
	if http == nil {
		return schema
	}
	for _, step := range http.Steps {
		c.steps = append(c.steps, step.Name)
	}
	return Schema{
		System: withGets(schema.System, http.Facts),
		Member: withGets(schema.Member, http.MemberFacts),
	}
}

func withGets(fields []Field, gets []v1alpha1.Get) []Field {
	fields = slices.Clone(fields)
	for _, get := range gets {
		fields = append(fields, Field{Name: get.Name, Type: Dynamic, Doc: "the answer to GET " + get.URL})
	}
	return fields
}

// checkHTTP checks the templates of an http system, so that a mistake is seen where the policy is created.
func (c *compiler) checkHTTP(http *v1alpha1.HTTP) {
	if http == nil {
		return
	}
	for i, get := range http.Facts {
		c.over(fmt.Sprintf("spec.system.http.facts[%d].url", i), get.URL)
	}
	for i, get := range http.MemberFacts {
		c.over(fmt.Sprintf("spec.system.http.memberFacts[%d].url", i), get.URL, "member", "pod")
	}
	for i := range http.Steps {
		path := fmt.Sprintf("spec.system.http.steps[%d]", i)
		c.call(path+".do", &http.Steps[i].Do)
		if http.Steps[i].Undo != nil {
			c.call(path+".undo", http.Steps[i].Undo)
		}
	}
	if http.Summary != "" {
		summary := c.expression("spec.system.http.summary", http.Summary, Dynamic, costLimit)
		if summary != nil && !summary.speaksOnlyOf("system") {
			c.report("spec.system.http.summary", "it may speak of system only")
		}
	}
}

func (c *compiler) call(path string, call *v1alpha1.Call) {
	c.over(path+".url", call.URL, "member", "pod")
	if call.Body != "" {
		c.over(path+".body", call.Body, "member", "pod")
	}
}

// over checks a template that may speak of some variables only.
func (c *compiler) over(path, text string, variables ...string) {
	template := c.template(path, text)
	if template == nil {
		return
	}
	for _, part := range template.parts {
		if part.expression != nil && !part.expression.speaksOnlyOf(variables...) {
			c.report(path, "{{%s}} speaks of something that is not known yet when the request is made: it may speak of %s", part.expression.Text, listed(variables))
		}
	}
}
