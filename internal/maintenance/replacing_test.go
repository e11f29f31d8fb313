package maintenance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// held is a drain with a pod left for each reason.
func held(reasons ...drain.Reason) *Drain {
	run := &Drain{Begun: true, Outcome: drain.Running, PodCount: len(reasons)}
	for i, reason := range reasons {
		run.Blockers = append(run.Blockers, drain.Blocker{Reason: reason, Pod: snapshot.Key{Namespace: "shop", Name: fmt.Sprint("db-", i)}})
	}
	return run
}

// What keeps requests for members that have left from being made is said beside what holds the node.
func TestMembersThatHaveLeftAreNotRequested(t *testing.T) {
	in := Input{
		Now: noon, Nodes: []*Node{node("n1", taken("draining"))}, Maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", draining, 0))},
		Drains: map[string]*Drain{"n1": held(slices.Repeat([]drain.Reason{drain.SystemDecides}, mostBlockers+1)...)},
		Calls:  map[Call]*Attempt{{Maintenance: "uid-m", Node: "uid-n1", Step: draining, PodCount: mostBlockers + 1}: {Failure: "namespace shop: quota", Since: noon}},
	}
	got := Decide(in).Statuses["m"].Nodes[0].Blockers
	if len(got) != mostBlockers || got[0].Reason != "MembersNotReplaced" || !strings.Contains(got[0].Message, "quota") || got[1].Reason != string(drain.SystemDecides) {
		t.Errorf("%+v", got)
	}
}

func TestDecideReplacing(t *testing.T) {
	for name, c := range map[string]decided{
		"requests for members are made before a Node is deleted, once that is written": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", draining, 0))},
			nodes:        []*Node{node("n1", taken("drained"))},
			drains:       map[string]*Drain{"n1": outcome(drain.Drained)},
			want:         []string{"keep n1"},
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
			calls:        map[Call]*Attempt{{Maintenance: "uid-m", Node: "uid-n1", Step: v1alpha1.StepReplacingMembers}: {Failure: "namespace shop: quota", Since: noon.Add(-failingFor)}},
			want:         []string{"replace the members on n1 for person.usher.sh/anna"},
			steps:        []string{"n1 ReplacingMembers blocked"},
		},
		"its Node is deleted once they are there": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", v1alpha1.StepReplacingMembers, 0))},
			nodes:        []*Node{node("n1", taken("drained"))},
			calls:        map[Call]*Attempt{{Maintenance: "uid-m", Node: "uid-n1", Step: v1alpha1.StepReplacingMembers}: {Done: true}},
			steps:        []string{"n1 DeletingNode"},
		},
		"while systems hold the rest, those that have left are requested": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", draining, 0))},
			nodes:        []*Node{node("n1", taken("draining"))},
			drains:       map[string]*Drain{"n1": held(drain.SystemDecides, drain.EarlierRole)},
			want:         []string{"drain n1", "replace the members gone from n1 for person.usher.sh/anna"},
			steps:        []string{"n1 Draining"},
		},
		"… once for each number of pods": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", draining, 0))},
			nodes:        []*Node{node("n1", taken("draining"))},
			drains:       map[string]*Drain{"n1": held(drain.SystemDecides)},
			calls: map[Call]*Attempt{
				{Maintenance: "uid-m", Node: "uid-n1", Step: draining, PodCount: 2}: {Failure: "quota"}, {Maintenance: "uid-m", Node: "uid-n1", Step: draining, PodCount: 1}: {Done: true},
			},
			want:  []string{"drain n1"},
			steps: []string{"n1 Draining"},
		},
		"… but not while another pod is held by something else": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", draining, 0))},
			nodes:        []*Node{node("n1", taken("draining"))},
			drains:       map[string]*Drain{"n1": held(drain.SystemDecides, drain.BudgetExhausted)},
			want:         []string{"drain n1"},
			steps:        []string{"n1 Draining"},
		},
		"… or nothing is said of it": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", draining, 0))},
			nodes:        []*Node{node("n1", taken("draining"))},
			drains:       map[string]*Drain{"n1": {Begun: true, Outcome: drain.Running, PodCount: 2, Blockers: held(drain.SystemDecides).Blockers}},
			want:         []string{"drain n1"},
			steps:        []string{"n1 Draining"},
		},
		"… nor where members are kept": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(v1alpha1.WhenDrained{DeleteNode: &v1alpha1.DeleteNode{}}), at("n1", draining, 0))},
			nodes:        []*Node{node("n1", taken("draining"))},
			drains:       map[string]*Drain{"n1": held(drain.SystemDecides)},
			want:         []string{"drain n1"},
			steps:        []string{"n1 Draining"},
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
		"… also where the other one has the node only now": {
			maintenances: []*v1alpha1.NodeMaintenance{
				maintenance("m", then(v1alpha1.WhenDrained{DeleteNode: &v1alpha1.DeleteNode{}}), at("n1", v1alpha1.StepDeletingNode, 0)),
				maintenance("other", then(replacing)),
			},
			nodes: []*Node{node("n1", taken("drained"))},
			steps: []string{"n1 DeletingNode"},
		},
		"… and hold the node where the other one is suspended": {
			maintenances: []*v1alpha1.NodeMaintenance{
				maintenance("m", then(v1alpha1.WhenDrained{DeleteNode: &v1alpha1.DeleteNode{}}), at("n1", v1alpha1.StepDeletingNode, 0)),
				maintenance("other", then(replacing), at("n1", draining, 0), suspended),
			},
			nodes:  []*Node{node("n1", taken("drained"))},
			drains: map[string]*Drain{"n1": {Stopped: true}},
			want:   []string{"stop n1"},
			steps:  []string{"n1 DeletingNode blocked"},
		},
		"… or is held itself": {
			maintenances: []*v1alpha1.NodeMaintenance{
				maintenance("m", then(v1alpha1.WhenDrained{DeleteNode: &v1alpha1.DeleteNode{}}), at("n1", v1alpha1.StepDeletingNode, 0)),
				maintenance("other", then(replacing), at("n1", draining, 0), blocked),
			},
			nodes:  []*Node{node("n1", taken("draining"))},
			drains: map[string]*Drain{"n1": {Begun: true, PodCount: 1, Blockers: objectedTo.Blockers}},
			want:   []string{"drain n1"},
			steps:  []string{"n1 DeletingNode blocked"},
		},
		"a hook that was called has made none": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(replacing), at("n1", v1alpha1.StepReplacingMembers, 0))},
			nodes:        []*Node{node("n1", taken("drained"))},
			calls:        map[Call]*Attempt{{Maintenance: "uid-m", Node: "uid-n1", Step: v1alpha1.StepCallingHook}: {Done: true}},
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
