package eviction

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"

	"usher.sh/usher/internal/expression"
)

func TestUses(t *testing.T) {
	spec := toySpec()
	own := toyRoles()[0]
	own.Evict.Prepare = nil
	own.Evict.Rules = []v1alpha1.Rule{{
		Name: "r", Reason: "R", Expression: `member.drained && system.leader != member.id`, Message: "{{member.shards.filter(s, s != 'x')}}",
	}}
	spec.Roles, spec.Members = []v1alpha1.Role{own}, spec.Members[:1]
	want := expression.Uses{"member.drained", "member.id", "member.shards", "system.leader"}
	if diff := cmp.Diff(want, compiled(t, spec).Uses()); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
	open, err := expression.NewLanguage(expression.Schema{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		`system.a.b.c == 1 && has(system.d.e)`:           {"system.a.b.c", "system.d.e"},
		`system["a"].b == 1`:                             {"system"},
		`system.list.all(x, x.ok) && pod.name == "db-0"`: {"system.list"},
		`size(member) > 1`:                               {"member"},
	} {
		compiled, err := open.Expression(text, expression.Bool)
		if err != nil {
			t.Fatal(err)
		}
		got := compiled.Uses()
		slices.Sort(got)
		if diff := cmp.Diff(expression.Uses(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestPrune(t *testing.T) {
	e := &Evidence{
		System: expression.Facts{"status": map[string]any{"down": []any{"a"}, "rest": "long"}, "nodes": map[string]any{"a": 1.0}, "unused": 1.0},
		Members: map[string]expression.Facts{
			"a": {"shelf": 3.0, "unused": 1.0},
		},
	}
	before := e.Weight()
	e.Prune(expression.Uses{"member.shelf.parts", "system.nodes", "system.status.down"})
	want := &Evidence{
		System:  expression.Facts{"status": map[string]any{"down": []any{"a"}}, "nodes": map[string]any{"a": 1.0}},
		Members: map[string]expression.Facts{"a": {"shelf": 3.0}}, // that it is no object is for the rule to say
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("pruned (-want +got):\n%s", diff)
	}
	if e.Weight() >= before {
		t.Errorf("it weighs %d, and %d before", e.Weight(), before)
	}
}
