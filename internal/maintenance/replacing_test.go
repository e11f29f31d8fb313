package maintenance

import (
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
)

func TestDecideReplacing(t *testing.T) {
	for name, c := range map[string]decided{
		"requests for members are made before a Node is deleted, once that is written": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", draining, 0))},
			nodes:        []*Node{node("n1", taken("drained"))},
			drains:       map[string]*Drain{"n1": outcome(drain.Drained)},
			steps:        []string{"n1 ReplacingMembers"},
		},
		"they are made": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", v1alpha1.StepReplacingMembers, 0))},
			nodes:        []*Node{node("n1", taken("drained"))},
			want:         []string{"replace the members on n1 for person.usher.sh/anna"},
			steps:        []string{"n1 ReplacingMembers"},
		},
		"its Node is not deleted while they cannot be made": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", v1alpha1.StepReplacingMembers, time.Hour))},
			nodes:        []*Node{node("n1", taken("drained"))},
			calls:        map[Call]*Attempt{{"uid-m", "uid-n1", v1alpha1.StepReplacingMembers}: {Failure: "namespace shop: quota", Since: noon.Add(-failingFor)}},
			want:         []string{"replace the members on n1 for person.usher.sh/anna"},
			steps:        []string{"n1 ReplacingMembers blocked"},
		},
		"its Node is deleted once they are there": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", v1alpha1.StepReplacingMembers, 0))},
			nodes:        []*Node{node("n1", taken("drained"))},
			calls:        map[Call]*Attempt{{"uid-m", "uid-n1", v1alpha1.StepReplacingMembers}: {Done: true}},
			steps:        []string{"n1 DeletingNode"},
		},
		"another's members are requested before": {
			maintenances: []*v1alpha1.NodeMaintenance{
				maintenance("m", then(v1alpha1.WhenDrained{DeleteNode: &v1alpha1.DeleteNode{}}), at("n1", v1alpha1.StepDeletingNode, 0)),
				maintenance("other", then(replacing), at("n1", v1alpha1.StepReplacingMembers, 0)),
			},
			nodes: []*Node{node("n1", taken("drained"))},
			want:  []string{"replace the members on n1 for person.usher.sh/anna"},
			steps: []string{"n1 DeletingNode"},
		},
		"a hook that was called has made none": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", v1alpha1.StepReplacingMembers, 0))},
			nodes:        []*Node{node("n1", taken("drained"))},
			calls:        map[Call]*Attempt{{"uid-m", "uid-n1", v1alpha1.StepCallingHook}: {Done: true}},
			want:         []string{"replace the members on n1 for person.usher.sh/anna"},
			steps:        []string{"n1 ReplacingMembers"},
		},
		"members are to be kept after all": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(v1alpha1.WhenDrained{DeleteNode: &v1alpha1.DeleteNode{}}), at("n1", v1alpha1.StepReplacingMembers, 0))},
			nodes:        []*Node{node("n1", taken("drained"))},
			steps:        []string{"n1 DeletingNode"},
		},
		"none are made for a maintenance that is deleted": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", v1alpha1.StepReplacingMembers, 0), deleted)},
			nodes:        []*Node{node("n1", taken("drained"))},
			want:         []string{"give-back n1"},
			steps:        []string{"n1 ReplacingMembers"},
		},
		"… or suspended": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", v1alpha1.StepReplacingMembers, 0), suspended)},
			nodes:        []*Node{node("n1", taken("drained"))},
			steps:        []string{"n1 ReplacingMembers"},
		},
	} {
		t.Run(name, c.check)
	}
}
