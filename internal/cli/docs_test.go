package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/util/jsonpath"

	"usher.sh/usher/api/v1alpha1"
)

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestUsageNamesEveryCommandAndFlag(t *testing.T) {
	usage := document(t, "usage.md")
	root := newCommand("usher", genericiooptions.NewTestIOStreamsDiscard())
	for _, cmd := range root.Commands() {
		if !strings.Contains(usage, "usher "+cmd.Name()) {
			t.Errorf("usage.md does not name usher %s", cmd.Name())
		}
		checkFlags(t, usage, cmd)
	}
}

func checkFlags(t *testing.T, usage string, cmd *cobra.Command) {
	t.Helper()
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		short := f.Shorthand != "" && strings.Contains(usage, "-"+f.Shorthand+" ")
		if !short && !strings.Contains(usage, "--"+f.Name) {
			t.Errorf("usage.md does not name --%s of usher %s", f.Name, cmd.Name())
		}
	})
}

func TestOutputNamesEveryReasonStateAndEvent(t *testing.T) {
	output := document(t, "output.md")
	for _, file := range []string{"blocker.go", "decision.go", "events.go"} {
		for _, word := range constants(t, "../drain/"+file) {
			if word != "" && !strings.Contains(output, "`"+word+"`") {
				t.Errorf("output.md does not name `%s` (%s)", word, file)
			}
		}
	}
}

// The command that says how far steps are prints what the page says, and nothing of steps that are done or not counted.
func TestTheCommandThatCountsSteps(t *testing.T) {
	page := document(t, "policies.md")
	_, template, _ := strings.Cut(page, "-o jsonpath='{range .status.preparations")
	template, _, _ = strings.Cut(template, "'\n")
	path := jsonpath.New("steps").AllowMissingKeys(true)
	if err := path.Parse("{range .status.preparations" + template); err != nil {
		t.Fatal(err)
	}
	step := func(node string, remaining int64) v1alpha1.PreparationStatus {
		return v1alpha1.PreparationStatus{
			MemberRef: v1alpha1.MemberRef{Role: "nova-compute", ID: node, Node: node}, Name: "EvacuateServers", Remaining: remaining, RemainingAtStart: 5,
		}
	}
	policy := &v1alpha1.EvictionPolicy{}
	policy.Status.Preparations = []v1alpha1.PreparationStatus{step("node-6", 0), step("node-7", 3)}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(policy)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := path.Execute(&out, object); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSuffix(out.String(), "\n"); got == "" || !strings.Contains(page, "which prints `"+got+"`") {
		t.Errorf("it prints %q", got)
	}
}

// constants returns the strings that a file's constants stand for.
func constants(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		ast.Inspect(group, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				word, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				words = append(words, word)
			}
			return true
		})
	}
	if len(words) == 0 {
		t.Fatalf("no constants in %s", path)
	}
	return words
}
