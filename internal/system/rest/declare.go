package rest

import (
	"fmt"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
)

// extend adds the facts and steps of the policy's own, and its templates, so that a mistake in them is seen where the policy is written.
func extend(declaration *eviction.Declaration, spec *v1alpha1.System) {
	own := spec.HTTP
	declaration.Schema = expression.Schema{System: fields(own.Facts), Member: fields(own.MemberFacts)}
	declaration.Steps = map[string]string{}
	for i := range own.Steps {
		declaration.Steps[own.Steps[i].Name] = "a step of the policy's own"
	}
	declaration.Texts = texts(own)
}

func fields(gets []v1alpha1.Get) []expression.Field {
	all := make([]expression.Field, len(gets))
	for i, get := range gets {
		all[i] = expression.Field{Name: get.Name, Type: expression.Dynamic, Doc: "the answer to GET " + get.URL}
	}
	return all
}

func texts(spec *v1alpha1.HTTP) []eviction.Text {
	var all []eviction.Text
	template := func(path, text string, over ...string) {
		all = append(all, eviction.Text{Path: "spec.system.http." + path, Text: text, Template: true, Over: over})
	}
	for i, get := range spec.Facts {
		template(fmt.Sprintf("facts[%d].url", i), get.URL)
	}
	for i, get := range spec.MemberFacts {
		template(fmt.Sprintf("memberFacts[%d].url", i), get.URL, "member", "pod")
	}
	call := func(path string, c *v1alpha1.Call) {
		template(path+".url", c.URL, "member", "pod")
		if c.Body != "" {
			template(path+".body", c.Body, "member", "pod")
		}
	}
	for i := range spec.Steps {
		call(fmt.Sprintf("steps[%d].do", i), &spec.Steps[i].Do)
		if undo := spec.Steps[i].Undo; undo != nil {
			call(fmt.Sprintf("steps[%d].undo", i), undo)
		}
	}
	replace := func(path string, steps []v1alpha1.ReplaceStep) {
		for i := range steps {
			at := fmt.Sprintf("replace.%s[%d].", path, i)
			call(at+"do", &steps[i].Do)
			all = append(all, eviction.Text{Path: "spec.system.http." + at + "done", Text: steps[i].Done, Type: expression.Bool, Over: []string{"member", "system"}})
		}
	}
	if own := spec.Replace; own != nil {
		replace("leave", own.Leave)
		replace("join", own.Join)
	}
	if spec.Summary != "" {
		all = append(all, eviction.Text{Path: "spec.system.http.summary", Text: spec.Summary, Over: []string{"system"}})
	}
	return all
}
