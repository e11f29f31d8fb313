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
	"k8s.io/cli-runtime/pkg/genericiooptions"
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
