package recipes_test

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/recipes"
)

// Every recipe can be applied as it is, replaces what is lost where pods leave, and begins by refusing nothing.
func TestRecipesCompile(t *testing.T) {
	known, err := recipes.All()
	if err != nil || len(known) < 6 {
		t.Fatalf("%d recipes, %v", len(known), err)
	}
	for _, r := range known {
		policy := recipe(t, r.Name)
		compiled(t, policy)
		if policy.Kind != "EvictionPolicy" || policy.APIVersion != "usher.sh/v1alpha1" || policy.Spec.Mode != v1alpha1.ModeAudit {
			t.Errorf("%s: %s %s in mode %s", r.Name, policy.APIVersion, policy.Kind, policy.Spec.Mode)
		}
		for i := range policy.Spec.Members {
			if policy.Spec.Members[i].Leaves == v1alpha1.LeavesLoad {
				continue // its pods stay, and so do their disks
			}
			if policy.Spec.Members[i].Provider == nil || policy.Spec.Members[i].Provider.StatefulSet == nil {
				t.Errorf("%s: members of role %s have no provider", r.Name, policy.Spec.Members[i].Role)
			}
		}
		if !strings.HasPrefix(r.Text, "# "+r.About+"\n#\n# ") || len(r.About) > 120 || !strings.Contains(r.Text, "docs/recipes/"+r.Name+".md") {
			t.Errorf("%s begins with %q", r.Name, r.About)
		}
	}
}

var reasonsOnPage = regexp.MustCompile("(?m)^\\| `([A-Za-z]+)`")

// A page says of each reason of its recipe what it means, and of no other.
func TestPages(t *testing.T) {
	known, err := recipes.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range known {
		page, err := os.ReadFile(filepath.Join("../../docs/recipes", r.Name+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		on := map[string]bool{}
		for _, match := range reasonsOnPage.FindAllStringSubmatch(string(page), -1) {
			on[match[1]] = false
		}
		policy := recipe(t, r.Name)
		for i := range policy.Spec.Roles {
			role := &policy.Spec.Roles[i]
			for _, rule := range append(role.Evict.Rules, role.Replace.Rules...) {
				if _, is := on[rule.Reason]; !is {
					t.Errorf("%s.md does not say what %s means", r.Name, rule.Reason)
				}
				on[rule.Reason] = true
			}
		}
		for reason, is := range on {
			if !is {
				t.Errorf("%s.md speaks of %s, which its recipe does not have", r.Name, reason)
			}
		}
		if commands := strings.Count(string(page), "\nusher ") + strings.Count(string(page), "\nkubectl "); commands < 5 || !strings.Contains(string(page), "usher recipes "+r.Name) {
			t.Errorf("%s.md has %d commands to try it", r.Name, commands)
		}
	}
}

// A verdict, by answers that were written down.
type verdict struct {
	files    []string
	question question
	answer   eviction.Answer
	reasons  []string
	says     string // part of a message
	needs    string // the step that is to be asked for
	unasked  bool   // the answers lack something on purpose
}

func checkVerdicts(t *testing.T, name string, tests map[string]verdict) {
	t.Helper()
	if compiled(t, recipe(t, name)); t.Failed() {
		return
	}
	for test, want := range tests {
		t.Run(test, func(t *testing.T) {
			answers := newRecorded(t, name, want.files...)
			got, evidence := newDesk(t, name, answers).judge(t, want.question)
			var reasons, said []string
			for i := range got.Blockers {
				reasons = append(reasons, got.Blockers[i].Reason)
				said = append(said, got.Blockers[i].Message)
			}
			if got.Answer != want.answer || strings.Join(reasons, " ") != strings.Join(want.reasons, " ") || !strings.Contains(strings.Join(said, "\n"), want.says) {
				t.Errorf("%s for %q: %s, want %s for %q and %q; evidence: %s%s", got.Answer, reasons, strings.Join(said, "; "), want.answer, want.reasons, want.says, evidence.Error, evidence.Summary)
			}
			needs := ""
			if len(got.Needed) > 0 {
				needs = got.Needed[0].Name
			}
			if needs != want.needs {
				t.Errorf("it needs %q, want %q", needs, want.needs)
			}
			if len(answers.asked) > 0 && !want.unasked {
				t.Errorf("the answers lack %q", answers.asked)
			}
		})
	}
}

// The page about systems explains the language with lines of a recipe, and has none of its own.
func TestExampleOfThePageIsARecipe(t *testing.T) {
	page, err := os.ReadFile("../../docs/systems.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ := strings.Cut(block, "```")
	rest := text(t, "elasticsearch")
	for line := range strings.SplitSeq(strings.TrimSpace(example), "\n") {
		_, after, found := strings.Cut(rest, line+"\n")
		if !found {
			t.Fatalf("the recipe does not have this line, or not there: %s", line)
		}
		rest = after
	}
}

// What stands above a question for Prometheus, to be read and changed, is what is asked.
func TestQuestionsAreThoseThatStandAboveThem(t *testing.T) {
	question := regexp.MustCompile(`(?m)^ *# (.*)\n *- name: .*\n *url: /api/v1/query\?query=(.*)$`)
	for name, want := range map[string]int{"kafka": 7, "mongodb": 5} {
		found := question.FindAllStringSubmatch(text(t, name), -1)
		for _, match := range found {
			if asked, err := url.QueryUnescape(match[2]); err != nil || asked != match[1] {
				t.Errorf("%s: %q is asked, and %q stands above it: %v", name, asked, match[1], err)
			}
		}
		if len(found) != want {
			t.Errorf("%s has %d questions", name, len(found))
		}
	}
}
