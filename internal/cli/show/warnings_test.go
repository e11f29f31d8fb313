package show

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

var someWarnings = []v1alpha1.MaintenanceWarning{
	{Reason: "WillBeLost", Count: 3, Pods: []v1alpha1.WarnedPod{
		{Name: "shop/db-0", Message: "it will be lost with the node\x1b[31m", Remedy: "kubectl edit pdb -n shop db"},
		{Name: "shop/db-1", Message: "it will be lost with the node", Remedy: "kubectl edit pdb -n shop db"},
	}},
	{Reason: "LocalStorage", Count: 40},
}

func TestWarningLines(t *testing.T) {
	if diff := cmp.Diff([]string{
		"  WillBeLost, 3 pods",
		"    shop/db-0: it will be lost with the node",
		"      kubectl edit pdb -n shop db",
		"    shop/db-1: it will be lost with the node",
		"    and 1 more pod",
		"  LocalStorage, 40 pods",
	}, WarningLines(someWarnings, "  ", 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLostNodeSaysWarnings(t *testing.T) {
	n := LostNode{Name: "n1", Ready: "True", Warnings: []NodeWarnings{{"notice-n1", someWarnings[1:]}}}
	if diff := cmp.Diff([]string{
		"node n1: Ready is True", "it is not lost: no fence is under way", "NodeMaintenance notice-n1 drains it:", "  LocalStorage, 40 pods",
	}, n.Lines(0, Paint{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
