package all_test

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/system/all"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/systems.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every policy on the page can be used as it stands there.
func TestPoliciesOfThePage(t *testing.T) {
	if seen := usable(t, page(t)); seen < 2 {
		t.Errorf("the page has %d policies", seen)
	}
}

// So can those for operators.
func TestPoliciesForOperators(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	_, examples, _ := strings.Cut(string(text), "\n## kube-arangodb\n")
	if seen := usable(t, examples); seen != 4 {
		t.Errorf("the page has %d policies", seen)
	}
}

// TestSetOfThePage: the MemberSet of FoundationDB's page can be run as it stands there.
func TestSetOfThePage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/foundationdb.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```yaml\napiVersion: usher.sh/v1alpha1\nkind: MemberSet\n")
	block, _, _ = strings.Cut(block, "```")
	var set v1alpha1.MemberSet
	if err := yaml.UnmarshalStrict([]byte(block), &set); err != nil {
		t.Fatal(err)
	}
	kind, ok := all.Kind(&set.Spec.System)
	if !ok || kind.Set == nil {
		t.Fatalf("members of %+v cannot be run", set.Spec.System)
	}
	r := memberset.Decide(memberset.Input{Set: &set, Kind: *kind.Set})
	if len(r.Status.Members) != 8 || len(r.Status.Blockers) > 0 {
		t.Errorf("%d members, and %+v", len(r.Status.Members), r.Status.Blockers)
	}
	roles, err := all.Roles()
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := eviction.Compile(&memberset.PolicyOf(&set, kind.Set).Spec, roles, kind.Declaration(&set.Spec.System)); len(problems) > 0 {
		t.Errorf("its policy: %+v", problems)
	}
}

// usable compiles the policy with which each block of a page begins, and returns how many there are.
func usable(t *testing.T, page string) (seen int) {
	t.Helper()
	roles, err := all.Roles()
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(page, "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		text, _, _ = strings.Cut(text, "\n---\n")
		if strings.Contains(text, "\nkind: MemberSet\n") {
			continue
		}
		var policy v1alpha1.EvictionPolicy
		if err := yaml.UnmarshalStrict([]byte(text), &policy); err != nil {
			t.Errorf("%v in\n%s", err, text)
			continue
		}
		seen++
		kind, ok := all.Kind(&policy.Spec.System)
		if !ok {
			t.Errorf("policy %s has no system", policy.Name)
		}
		_, problems := eviction.Compile(&policy.Spec, roles, kind.Declaration(&policy.Spec.System))
		for _, p := range problems {
			t.Errorf("policy %s: %s: %s", policy.Name, p.Path, p.Message)
		}
	}
	return seen
}

func TestPageNamesEveryFactOfEtcd(t *testing.T) {
	kind, _ := all.Kind(&v1alpha1.System{Etcd: &v1alpha1.Etcd{}})
	_, section, _ := strings.Cut(page(t), "\n## etcd\n")
	for _, table := range []struct {
		head   string
		fields []expression.Field
	}{{"| `system.` |", kind.Schema.System}, {"| `member.` |", kind.Schema.Member}} {
		_, rows, _ := strings.Cut(section, table.head)
		rows, _, _ = strings.Cut(rows, "\n\n")
		for _, f := range table.fields {
			if !strings.Contains(rows, "`"+f.Name+"`") {
				t.Errorf("%s %s is not on the page", table.head, f.Name)
			}
		}
	}
}

// So is every fact of FoundationDB, and the policies of its page can be used.
func TestPageOfFoundationDB(t *testing.T) {
	text, err := os.ReadFile("../../../docs/foundationdb.md")
	if err != nil {
		t.Fatal(err)
	}
	if seen := usable(t, string(text)); seen != 2 {
		t.Errorf("the page has %d policies", seen)
	}
	kind, _ := all.Kind(&v1alpha1.System{FoundationDB: &v1alpha1.FoundationDB{}})
	for head, fields := range map[string][]expression.Field{"| `system.` |": kind.Schema.System, "| `member.` |": kind.Schema.Member} {
		_, rows, _ := strings.Cut(string(text), head)
		rows, _, _ = strings.Cut(rows, "\n\n")
		for _, f := range fields {
			if !strings.Contains(rows, "`"+f.Name+"`") {
				t.Errorf("%s %s is not on the page", head, f.Name)
			}
		}
	}
}

// The policy of OpenStack's page can be used, and so can those of the page about policies that are whole; every role is on the former.
func TestPageOfOpenStack(t *testing.T) {
	text, err := os.ReadFile("../../../docs/openstack.md")
	if err != nil {
		t.Fatal(err)
	}
	if seen := usable(t, string(text)); seen != 1 {
		t.Errorf("the page has %d policies", seen)
	}
	roles, err := all.Roles()
	if err != nil {
		t.Fatal(err)
	}
	for i := range roles {
		if roles[i].System == "openstack" && !strings.Contains(string(text), "\n| `"+roles[i].Name+"` |") {
			t.Errorf("role %s is not on the page", roles[i].Name)
		}
	}
}

func TestPageNamesEveryFactOfWorkloads(t *testing.T) {
	kind, _ := all.Kind(&v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}})
	_, section, _ := strings.Cut(page(t), "\n## Plain workloads\n")
	for _, f := range kind.Schema.Member {
		if !strings.Contains(section, "| `"+f.Name+"` |") {
			t.Errorf("%s is not on the page", f.Name)
		}
	}
}
