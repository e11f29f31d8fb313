package expression

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	for text, want := range map[string][]piece{
		"":                      nil,
		"plain":                 {{text: "plain"}},
		"a {{x}} b":             {{text: "a "}, {text: "x", code: true}, {text: " b"}},
		"{{x}}{{ y }}":          {{text: "x", code: true}, {text: "y", code: true}},
		`{{"}}"}}!`:             {{text: `"}}"`, code: true}, {text: "!"}},
		`{{{"a": {"b": 1}}}}`:   {{text: `{"a": {"b": 1}}`, code: true}},
		`{{'it\'s }}'}}`:        {{text: `'it\'s }}'`, code: true}},
		`{{r'\'}}`:              {{text: `r'\'`, code: true}},
		"a } b }} c { d":        {{text: "a } b }} c { d"}},
		`{"q": {{x}}, "r": {}}`: {{text: `{"q": `}, {text: "x", code: true}, {text: `, "r": {}}`}},
	} {
		got, err := split(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(piece{})); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	for _, text := range []string{"{{", "a {{x} b", `{{"}}`, "{{}}", "{{ }}"} {
		if got, err := split(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		"shards {{member.shards}} wait":  "shards s1, s2, s3 and 2 more wait",
		"{{member.extra.names}}":         "a, b",
		"{{member.extra}}":               "count: 2, names: a, b",
		"{{[]}} left":                    "none left",
		"seen {{member.seen}}":           "seen 2026-11-21T11:59:00Z",
		"for {{now - member.seen}}":      "for 1m0s",
		"{{member.load}} {{member.lag}}": "0.5 3",
		"{{null}}":                       "nothing",
	} {
		template, err := toyLanguage(t, toySchema).Template(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got, err := template.Expand(toyScope(), nil)
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestExpandEscapes(t *testing.T) {
	template, err := toyLanguage(t, toySchema).Template(`/_nodes/{{"a/b c"}}?x={{member.id}}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := template.Expand(toyScope(), url.PathEscape)
	if want := "/_nodes/a%2Fb%20c?x=db-0"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestExpandJSON(t *testing.T) {
	template, err := toyLanguage(t, toySchema).Template(`{"exclude": {{member.id}}, "list": {{member.extra.names}}, "at": {{now}}, "in": {{duration("5s")}}}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := template.ExpandJSON(toyScope())
	want := `{"exclude": "db-0", "list": ["a","b"], "at": "` + noon.Format(time.RFC3339) + `", "in": "5s"}`
	if err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestMistakesInTemplates(t *testing.T) {
	_, err := toyLanguage(t, toySchema).Template("shards {{member.shrads}}")
	if err == nil || !strings.Contains(err.Error(), "in {{member.shrads}}: there is no fact 'shrads'") {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsNotKnownIsSaid(t *testing.T) {
	template, err := toyLanguage(t, toySchema).Template("quorum is {{system.quorum}} of {{member.id}}")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := template.ExpandBrief(toyScope().Variables(), nil), "quorum is (not known) of db-0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := template.Expand(toyScope(), nil); err == nil {
		t.Error("a template for a machine must fail where a value is missing")
	}
}

func TestTemplatesDoNotGrowWithoutLimit(t *testing.T) {
	template, err := toyLanguage(t, toySchema).Template(strings.Repeat("{{member.id}}", 20))
	if err != nil {
		t.Fatal(err)
	}
	scope := toyScope()
	scope.Member = strings.Repeat("x", 100<<10)
	if _, err := template.Expand(scope, nil); err == nil || !strings.Contains(err.Error(), "longer than 1024 KiB") {
		t.Errorf("error %v", err)
	}
	if said := template.ExpandBrief(scope.Variables(), nil); len(said) > 5_000 {
		t.Errorf("a message of %d bytes", len(said))
	}
}
