package expression

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// FuzzSplit: cutting a template never panics and loses nothing but braces and space around expressions.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"a {{x}} b", `{{"}}"}}`, "{{", "}}{{", `{{{"a":{}}}}`, `{{r'\'}}`, "{{'", "{{a}}}}", "{{{}} }}}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pieces, err := split(text)
		if err != nil {
			return
		}
		rest := text
		for _, piece := range pieces {
			if piece.code {
				rest = strings.TrimLeftFunc(eaten(t, rest, "{{"), unicode.IsSpace)
				rest = strings.TrimLeftFunc(eaten(t, rest, piece.text), unicode.IsSpace)
				rest = eaten(t, rest, "}}")
				continue
			}
			rest = eaten(t, rest, piece.text)
		}
		if rest != "" {
			t.Fatalf("%q: %q was lost", text, rest)
		}
	})
}

// eaten takes a prefix off, which must be there.
func eaten(t *testing.T, text, prefix string) string {
	t.Helper()
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok || prefix == "" {
		t.Fatalf("%q does not begin with %q", text, prefix)
	}
	return rest
}

// FuzzExpression: whatever a policy's author writes and whatever the system says, it never panics and always ends.
func FuzzExpression(f *testing.F) {
	facts := `{"a": [1, 2.5, "x", null, {"b": true}], "drained": true, "n": 3}`
	for _, seed := range []string{
		`member.drained`, `member.a.all(x, member.a.exists(y, x == y))`, `system.n + 1 > 2.5`, `has(member.a)`, `member.a[9] == 1`,
		`pod.name.matches("(a+)+$")`, `"%s".format([1])`, `member.a.map(x, member.a.map(y, member.a.map(z, z)))`, `pod.labels["x"]`,
		`duration("1h") + now - pod.created > now - now`, `member`, `[pod, node]`, `pod{}`, `math.greatest(member.a)`, `1 / 0`, `type(pod)`,
		`member.a.flatten(100000)`, `[[[]]].flatten()`, `dyn(pod).nothing`, `b"x" + b"y"`, `9223372036854775807 + 1`, `string(1e400)`,
	} {
		f.Add(seed, facts)
	}
	closed, open := toyLanguage(f, toySchema), toyLanguage(f, Schema{Open: true})
	f.Fuzz(func(t *testing.T, text, facts string) {
		var known map[string]any
		if json.Unmarshal([]byte(facts), &known) != nil {
			return
		}
		scope := toyScope()
		scope.Facts, scope.System = known, known
		for _, language := range []*Language{closed, open} {
			expression, err := language.Expression(text, Dynamic)
			if err != nil {
				if err.Error() == "" {
					t.Fatal("a mistake without words")
				}
				continue
			}
			value, err := expression.Eval(scope)
			if err == nil {
				_ = Print(value)
			} else if strings.Contains(err.Error(), "internal error") {
				t.Fatalf("%s on %s: %v", text, facts, err)
			}
		}
	})
}

// FuzzTemplate: a template that compiles has words for a person, whatever is missing.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"a {{member.id}}", "{{member.x.y}} and {{pod}}", "{{[1,2,3,4,5]}}", `{{{"a": {"b": 1}}}}`, "{{now}}{{now - pod.created}}"} {
		f.Add(seed)
	}
	language := toyLanguage(f, Schema{Open: true})
	variables := toyScope().Variables()
	f.Fuzz(func(t *testing.T, text string) {
		template, err := language.Template(text)
		if err != nil {
			return
		}
		if words := template.ExpandBrief(variables, nil); words == "" && text != "" && !strings.Contains(text, "{{") {
			t.Fatalf("%q: no words", text)
		}
		if value, err := template.ExpandJSON(toyScope()); err == nil && strings.Contains(text, "{{") && value == text {
			t.Fatalf("%q: nothing was put in", text)
		}
	})
}
