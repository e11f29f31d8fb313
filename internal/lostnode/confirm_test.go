package lostnode

import (
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

func TestConfirm(t *testing.T) {
	lost := lostNode("n1")
	fence := func(change func(*v1alpha1.NodeFence)) []*v1alpha1.NodeFence {
		f := NewFence(&lost, "all")
		change(f)
		return []*v1alpha1.NodeFence{f}
	}
	none := func(*Node) {}
	for name, c := range map[string]struct {
		node   func(*Node)
		lease  Lease
		fences []*v1alpha1.NodeFence
		policy string
		why    string
	}{
		"lost":                          {node: none, lease: silentLease()},
		"nothing is known of its lease": {node: none, lease: Lease{Error: "forbidden"}},
		"a policy's fence":              {node: none, lease: silentLease(), fences: fence(func(*v1alpha1.NodeFence) {}), policy: "all"},
		"another silence's":             {node: flapped, lease: silentLease(), fences: fence(func(*v1alpha1.NodeFence) {})},
		"it answers":                    {node: ready, lease: silentLease(), why: "Cut the machine's power"},
		"its lease is new":              {node: none, lease: Lease{Known: true, Renewed: noon.Add(-5 * time.Second)}, why: "renewed 5s ago"},
		"no boot id":                    {node: func(n *Node) { n.BootID = "" }, lease: silentLease(), why: "kubectl delete node n1"},
		"said before": {node: none, lease: silentLease(), why: "anna has said so already", fences: fence(func(f *v1alpha1.NodeFence) {
			f.Spec.Confirmation = &v1alpha1.FenceConfirmation{Requester: "anna", Time: *at(noon)}
		})},
		"proven":   {node: none, lease: silentLease(), why: "proven off already", fences: fence(func(f *v1alpha1.NodeFence) { f.Status.ProvenTime = at(noon) })},
		"it ended": {node: none, lease: silentLease(), why: "kubectl delete nodefence n1-", fences: fence(func(f *v1alpha1.NodeFence) { f.Status.Step = v1alpha1.FenceCancelled })},
	} {
		t.Run(name, func(t *testing.T) {
			node := lost
			c.node(&node)
			got, why := Confirm(&node, c.lease, c.fences, "jane", noon)
			if !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
				t.Fatalf("%q, want %q", why, c.why)
			}
			if why != "" {
				return
			}
			if got.Spec.Confirmation.Requester != "jane" || got.Spec.Policy != c.policy || got.Name != FenceName(&node) {
				t.Errorf("%+v", got)
			}
		})
	}
}
