package maintenance

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// Nothing more is done to a node that another client has given back since it was drained: pods may have started there. Where nothing is to be done to it
// anyway, what was waited for ends its entry.
func TestNodesThatWereGivenBack(t *testing.T) {
	uncordoned := func(n *Node) { n.Unschedulable = false }
	hook := &v1alpha1.MaintenanceHook{URL: "http://x"}
	wait := &v1alpha1.MaintenanceWait{For: v1alpha1.WaitBootIDChanged}
	rebooted := func(n *Node) { n.BootID = "boot-2" }
	called := map[Call]*Attempt{{Maintenance: "uid-m", Node: "uid-n1", Step: v1alpha1.StepCallingHook}: {Done: true}}
	back := map[string]func(*Node){
		"schedulable":           uncordoned,
		"cordoned anew":         func(n *Node) { n.CordonedBy, n.CordonLost = "kubectl-cordon", true },
		"its record taken off":  func(n *Node) { n.Drain = nil },
		"the record of another": func(n *Node) { n.Drain = &snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: "1a2b"}, Cordoned: true} },
	}
	for how, change := range back {
		for name, c := range map[string]struct {
			when  v1alpha1.WhenDrained
			step  v1alpha1.MaintenanceStep
			calls map[Call]*Attempt
			then  func(*Node)
			steps []string
		}{
			"no hook is called":                {v1alpha1.WhenDrained{Hook: hook}, v1alpha1.StepCallingHook, nil, nil, []string{"n1 CallingHook blocked"}},
			"no Node is deleted":               {v1alpha1.WhenDrained{DeleteNode: &v1alpha1.DeleteNode{}}, v1alpha1.StepDeletingNode, nil, nil, []string{"n1 DeletingNode blocked"}},
			"no members are replaced":          {replacing, v1alpha1.StepReplacingMembers, nil, nil, []string{"n1 ReplacingMembers blocked"}},
			"a node that is kept":              {v1alpha1.WhenDrained{KeepCordoned: &v1alpha1.KeepCordoned{}}, drained, nil, nil, []string{"n1 Drained blocked"}},
			"a wait before a deletion":         {v1alpha1.WhenDrained{Wait: wait, DeleteNode: &v1alpha1.DeleteNode{}}, v1alpha1.StepWaiting, nil, rebooted, []string{"n1 Waiting blocked"}},
			"a hook that has taken it, a wait": {v1alpha1.WhenDrained{Hook: hook, Wait: wait}, v1alpha1.StepCallingHook, called, nil, []string{"n1 Waiting blocked"}},
			"a last wait goes on":              {v1alpha1.WhenDrained{Wait: wait}, v1alpha1.StepWaiting, nil, nil, []string{"n1 Waiting blocked"}},
			"a last wait that is over":         {v1alpha1.WhenDrained{Wait: wait}, v1alpha1.StepWaiting, nil, rebooted, []string{"n1 done"}},
			"a last hook that has taken it":    {v1alpha1.WhenDrained{Hook: hook}, v1alpha1.StepCallingHook, called, nil, []string{"n1 done"}},
		} {
			t.Run(how+"/"+name, func(t *testing.T) {
				n := node("n1", taken("drained"), change)
				if c.then != nil {
					c.then(n)
				}
				decided{maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(c.when), at("n1", c.step, 0))}, nodes: []*Node{n}, calls: c.calls, steps: c.steps}.check(t)
			})
		}
	}
}

// A Node is deleted as it was seen.
func TestDeletionInsistsOnWhatWasSeen(t *testing.T) {
	in := Input{
		Now: noon, Nodes: []*Node{node("n1", taken("drained"), func(n *Node) { n.ResourceVersion = "7" })},
		Maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(v1alpha1.WhenDrained{DeleteNode: &v1alpha1.DeleteNode{}}), at("n1", v1alpha1.StepDeletingNode, 0), func(m *v1alpha1.NodeMaintenance) {
			m.CreationTimestamp = metav1.NewTime(noon)
		})},
	}
	want := []Deletion{{Call{Maintenance: "uid-m", Node: "uid-n1", Step: v1alpha1.StepDeletingNode}, "n1", "7"}}
	if diff := cmp.Diff(want, Decide(in).Deletions); diff != "" {
		t.Errorf("deletions (-want +got):\n%s", diff)
	}
}
