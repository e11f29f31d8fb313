package show

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/drain"
)

func TestCommandsLeadToTheSameCluster(t *testing.T) {
	lab := Commands{Program: "usher", Flags: []string{"--context=lab", "--as=eva"}}
	plugin := Commands{Program: "kubectl usher"}
	both := Commands{Program: "kubectl usher", Flags: []string{"--context=lab"}}
	tests := []struct {
		name       string
		as         Commands
		text, want string
	}{
		{"nothing was given", Commands{Program: "usher"}, "usher uncordon a; kubectl edit pdb b", "usher uncordon a; kubectl edit pdb b"},
		{"the zero value", Commands{}, "usher uncordon a", "usher uncordon a"},
		{"a command alone", lab, "usher uncordon a", "usher --context=lab --as=eva uncordon a"},
		{"without a name after the verb", lab, "usher drain --revert", "usher --context=lab --as=eva drain --revert"},
		{"of kubectl", lab, "kubectl uncordon a", "kubectl --context=lab --as=eva uncordon a"},
		{
			"several", lab, "let another node run it (kubectl describe pod -n a b shows its node selector), or kubectl edit pdb -n a b",
			"let another node run it (kubectl --context=lab --as=eva describe pod -n a b shows its node selector), or kubectl --context=lab --as=eva edit pdb -n a b",
		},
		{"within a sentence", lab, "node a keeps its cordon: no; usher uncordon a tries it again", "node a keeps its cordon: no; usher --context=lab --as=eva uncordon a tries it again"},
		{"in quotes", lab, "wait; `usher evictions` shows it", "wait; `usher --context=lab --as=eva evictions` shows it"},
		{"twice", lab, lab.In("usher uncordon a"), "usher --context=lab --as=eva uncordon a"},
		{"prose", lab, "the manager of usher gets it; usher's manager runs; Usher drains; a usher drained it; kubectl, get it", "the manager of usher gets it; usher's manager runs; Usher drains; a usher drained it; kubectl, get it"},
		{"in a namespace of that name", lab, "kubectl edit pdb -n usher drain", "kubectl --context=lab --as=eva edit pdb -n usher drain"},
		{"before names that begin like verbs", lab, "by usher drain-all; usher get-1, or usher plan.", "by usher drain-all; usher get-1, or usher --context=lab --as=eva plan."},
		{"a name", lab, "node my-usher drain", "node my-usher drain"},
		{"what an administrator types", lab, "kubectl create clusterrole usher-read", "kubectl create clusterrole usher-read"},
		{"a plugin", plugin, "usher uncordon a; kubectl get pdb -n b", "kubectl usher uncordon a; kubectl get pdb -n b"},
		{"a plugin twice", plugin, plugin.In("usher uncordon a"), "kubectl usher uncordon a"},
		{"a plugin with flags", both, "usher why pod/a", "kubectl usher --context=lab why pod/a"},
		{"a plugin with flags twice", both, both.In("usher why pod/a"), "kubectl usher --context=lab why pod/a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.as.In(tt.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCommandsOfBlockersLeaveTheOriginals(t *testing.T) {
	given := []drain.Blocker{{Message: "usher drain a", Remedy: "usher uncordon a"}}
	got := Commands{Flags: []string{"--context=lab"}}.Blockers(given)
	if got[0].Remedy != "usher --context=lab uncordon a" || got[0].Message != "usher drain a" || given[0].Remedy != "usher uncordon a" {
		t.Errorf("got %v of %v", got, given)
	}
}
