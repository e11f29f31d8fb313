package arangodb

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
)

var readPage = sync.OnceValues(func() (string, error) {
	text, err := os.ReadFile("../../../docs/arangodb.md")
	return string(text), err
})

func page(t *testing.T) string {
	t.Helper()
	text, err := readPage()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// section is what stands on the page below a heading, up to the next one of any kind.
func section(t *testing.T, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(page(t), "# "+heading+"\n")
	if !found {
		t.Fatalf("the page has no section %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n#")
	return text
}

// rows are those of a section's tables, without their heads; each must have so many cells.
func rows(t *testing.T, heading string, cells int) [][]string {
	t.Helper()
	var all [][]string
	body := false
	for line := range strings.Lines(section(t, heading)) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			body = false
		case strings.HasPrefix(line, "| ---"):
			body = true
		case body:
			row := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), " | ")
			if len(row) != cells {
				t.Fatalf("section %q: %d cells, want %d, in %s", heading, len(row), cells, line)
			}
			for i := range row {
				row[i] = strings.TrimSpace(row[i])
			}
			all = append(all, row)
		}
	}
	if len(all) == 0 {
		t.Fatalf("section %q has no table", heading)
	}
	return all
}

var readPolicy = sync.OnceValues(func() (*v1alpha1.EvictionPolicy, error) {
	text, err := readPage()
	if err != nil {
		return nil, err
	}
	_, text, _ = strings.Cut(text, "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	var policy v1alpha1.EvictionPolicy
	return &policy, yaml.UnmarshalStrict([]byte(text), &policy)
})

func TestPolicyOfThePage(t *testing.T) {
	policy, err := readPolicy()
	if err != nil {
		t.Fatal(err)
	}
	builtIn, err := eviction.ParseRoles(Kind().Roles)
	if err != nil {
		t.Fatal(err)
	}
	_, problems := eviction.Compile(&policy.Spec, builtIn, Kind().Declaration(&policy.Spec.System))
	for _, p := range problems {
		t.Errorf("%s: %s", p.Path, p.Message)
	}
	if len(policy.Spec.Members) == 0 || len(policy.Spec.Roles) != 1 {
		t.Errorf("policy is %+v", policy.Spec)
	}
}

func TestPageNamesEveryFact(t *testing.T) {
	text := section(t, "Facts")
	for prefix, fields := range map[string][]expression.Field{"system.": Kind().Schema.System, "member.": Kind().Schema.Member} {
		for _, f := range fields {
			if !strings.Contains(text, "`"+prefix+f.Name+"`") {
				t.Errorf("%s%s is not on the page", prefix, f.Name)
			}
		}
	}
}

var ruleName = regexp.MustCompile("`((?:evict|replace)/[a-z-]+)`")

// Every rule of a role is on the page, beside the sentence that it follows or the reason why it goes further, and the page
// names no other.
func TestPageNamesEveryRule(t *testing.T) {
	roles, err := eviction.ParseRoles(Kind().Roles)
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		var want, got []string
		for _, r := range role.Evict.Rules {
			want = append(want, "evict/"+r.Name)
		}
		for _, r := range role.Replace.Rules {
			want = append(want, "replace/"+r.Name)
		}
		for _, row := range rows(t, role.Name, 2) {
			for _, found := range ruleName.FindAllStringSubmatch(row[1], -1) {
				got = append(got, found[1])
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("role %s: rules on the page, each once (-want +got):\n%s", role.Name, diff)
		}
	}
}
