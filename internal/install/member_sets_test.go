package install

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"sigs.k8s.io/yaml"

	"usher.sh/usher/config"
)

// Who writes a MemberSet needs each of the rights that the manager uses for it.
func TestWhoMayWriteAMemberSet(t *testing.T) {
	rights := []string{
		"pods create", "pods delete", "persistentvolumeclaims create", "persistentvolumeclaims delete", "services create", "services delete",
		"usher.sh/evictionpolicies create", "usher.sh/evictionpolicies update", "configmaps create", "configmaps update",
	}
	if missing := memberSetRefused(t, rights, ""); missing != "" {
		t.Errorf("with all rights: %s", missing)
	}
	for _, lacks := range rights {
		verb, resource := strings.Fields(lacks)[1], strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(strings.Fields(lacks)[0], "usher.sh/"), "ies"), "s")
		if message := memberSetRefused(t, rights, lacks); !strings.Contains(message, verb) || !strings.Contains(strings.ToLower(message), resource) {
			t.Errorf("without %s: %q", lacks, message)
		}
	}
}

// memberSetRefused is the message by which a MemberSet of FoundationDB is refused to a user with these rights but one; "": it is not.
func memberSetRefused(t *testing.T, rights []string, lacks string) string {
	t.Helper()
	join := func(between string) func(a, b ref.Val) ref.Val {
		return func(a, b ref.Val) ref.Val {
			return types.String(strings.TrimPrefix(fmt.Sprint(a.Value())+between+fmt.Sprint(b.Value()), between))
		}
	}
	step := func(name string, add func(a, b ref.Val) ref.Val) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(name, []*cel.Type{cel.StringType, cel.StringType}, cel.StringType, cel.BinaryBinding(add)))
	}
	env, err := cel.NewEnv(
		cel.Variable("request", cel.MapType(cel.StringType, cel.StringType)), cel.Variable("authorizer", cel.StringType), cel.Variable("object", cel.DynType),
		step("group", join("/")), step("resource", join("/")), step("check", join(" ")), step("namespace", func(a, _ ref.Val) ref.Val { return a }),
		cel.Function("allowed", cel.MemberOverload("allowed", []*cel.Type{cel.StringType}, cel.BoolType, cel.UnaryBinding(func(asked ref.Val) ref.Val {
			for _, right := range rights {
				if right == asked.Value() {
					return types.Bool(right != lacks)
				}
			}
			t.Errorf("it is asked for %v", asked.Value())
			return types.False
		}))),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, validation := range admissionPolicy(t, "usher-member-sets").Spec.Validations {
		foundationDB := map[string]any{"spec": map[string]any{"system": map[string]any{"foundationdb": map[string]any{}}}}
		if evaluated(t, env, validation.Expression, map[string]any{"authorizer": "", "request": map[string]string{"namespace": "shop"}, "object": foundationDB}) != true {
			return validation.Message
		}
	}
	return ""
}

func evaluated(t *testing.T, env *cel.Env, expression string, variables map[string]any) any {
	t.Helper()
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expression, issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := program.Eval(variables)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value.Value()
}

// The name of a set begins those of Services, which take no dot, and no digit at their beginning.
func TestTheNameOfAMemberSet(t *testing.T) {
	text, err := fs.ReadFile(config.Files, "crd/usher.sh_membersets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema struct {
						Rules []struct{ Rule, Message string } `json:"x-kubernetes-validations"`
					} `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	env, err := cel.NewEnv(cel.Variable("self", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"kv": "", "k": "", "kv-2": "", "kv.prod": "letters, digits and dashes alone", "2kv": "begins with a letter", "kv-": "begins with a letter",
		"a-name-of-twenty-five-let": "24 characters at most",
	} {
		said := ""
		for _, rule := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Rules {
			if evaluated(t, env, rule.Rule, map[string]any{"self": map[string]any{"metadata": map[string]any{"name": name}}}) != true {
				said += rule.Message
			}
		}
		if want == "" && said != "" || !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", name, said, want)
		}
	}
}
