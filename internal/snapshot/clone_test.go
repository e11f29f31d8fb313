package snapshot

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

func TestCloneIsApart(t *testing.T) {
	c := NewCluster()
	owner := Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "rs"}
	for _, name := range []string{"a", "b"} {
		c.SetPod(&Pod{Namespace: "shop", Name: name, UID: types.UID(name), Node: "n", Owner: owner})
	}
	c.SetNode(&Node{Name: "n"})
	c.SetBudget(&Budget{Namespace: "shop", Name: "web", Selector: labels.Everything(), Allowed: 1})
	c.SetWorkload(&Workload{Kind: "ReplicaSet", Namespace: "shop", Name: "web", UID: "rs", Owner: Owner{UID: "deploy"}})
	of := owner.In("shop")
	_ = c.PodsOn("n") // fills what sorting remembers

	clone := c.Clone()
	clone.DeletePod("a")
	clone.SetPod(&Pod{Namespace: "shop", Name: "c", UID: "c", Node: "n", Owner: owner, CostMark: "d"})
	clone.SetNode(&Node{Name: "n", Unschedulable: true})
	clone.SetBudget(&Budget{Namespace: "shop", Name: "web", Selector: labels.Everything()})
	clone.DeleteWorkload("rs")
	clone.SetLease(&Lease{ID: "x"})
	clone.SetVolume(&Volume{Name: "v"})
	clone.SetLeasesRead("", true)
	c.DeletePod("b")

	names := func(pods []*Pod) (all string) {
		for _, p := range pods {
			all += p.Name
		}
		return all
	}
	for _, look := range []struct{ what, got, want string }{
		{"pods on the node, original", names(c.PodsOn("n")), "a"},
		{"pods on the node, clone", names(clone.PodsOn("n")), "bc"},
		{"pods of the owner, original", names(c.PodsOf(of)), "a"},
		{"pods of the owner, clone", names(clone.PodsOf(of)), "bc"},
		{"pods of the namespace, original", names(c.PodsIn("shop")), "a"},
		{"pods of the namespace, clone", names(clone.PodsIn("shop")), "bc"},
		{"marked pods, original", names(c.MarkedPods()), ""},
	} {
		if look.got != look.want {
			t.Errorf("%s: got %q, want %q", look.what, look.got, look.want)
		}
	}
	if c.Node("n").Unschedulable || c.Budget(Key{Namespace: "shop", Name: "web"}).Allowed != 1 || len(c.WorkloadsOf(OwnerKey{Namespace: "shop", UID: "deploy"})) != 1 {
		t.Error("a change of the clone is seen in the original")
	}
	if c.volumes["v"] != nil {
		t.Error("a volume of the clone is seen in the original")
	}
	if lease, known := c.LeaseOf("x"); lease != nil || known {
		t.Error("a Lease of the clone is seen in the original")
	}
}
