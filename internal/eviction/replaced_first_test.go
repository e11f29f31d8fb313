package eviction

import (
	"slices"
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// A member of a MemberSet that leaves by being replaced is not evicted, and nothing is prepared for that.
func TestReplacedFirst(t *testing.T) {
	cordoned, schedulable := &snapshot.Node{Name: "node-a", Unschedulable: true}, &snapshot.Node{Name: "node-a"}
	for name, test := range map[string]struct {
		says  string
		node  *snapshot.Node
		given func(in *Input)
		held  bool
	}{
		"it does not say":             {"", schedulable, nil, true},
		"it says what means nothing":  {"no", schedulable, nil, true},
		"it is made anew":             {v1alpha1.PodRecreates, cordoned, nil, false},
		"its volumes follow it":       {v1alpha1.PodFollows, cordoned, nil, false},
		"its set says so":             {v1alpha1.PodIsReplaced, schedulable, nil, true},
		"its volumes cannot leave":    {v1alpha1.PodIsReplacedWhereCordoned, cordoned, nil, true},
		"they need not":               {v1alpha1.PodIsReplacedWhereCordoned, schedulable, nil, false},
		"its node is not known":       {v1alpha1.PodIsReplacedWhereCordoned, nil, nil, true},
		"its policy is being deleted": {v1alpha1.PodIsReplaced, cordoned, func(in *Input) { in.Policies[0].Deleted = true }, false},
		"its node is proven off":      {v1alpha1.PodIsReplaced, nil, func(in *Input) { in.NodeOff, in.Deleted = true, true }, false},
		"it is none of a MemberSet":   {"", cordoned, func(in *Input) { in.Policies[0].Policy.entries[0].memberSet = false }, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := world(t)
			in.Policies[0].Policy.entries[0].memberSet = true
			in.Node = test.node
			in.Evidence.Members["m-s0"]["drained"] = false
			if test.says != "" {
				in.Pod.Annotations = map[string]string{v1alpha1.OnEvictionAnnotation: test.says}
			}
			if test.given != nil {
				test.given(&in)
			}
			v := Judge(in)
			if held := slices.Contains(reasons(v), LeavesByReplacement); held != test.held || held && len(v.Needed) > 0 || !held && !in.NodeOff && len(v.Needed) == 0 {
				t.Errorf("blockers %v, steps %v", reasons(v), stepNames(v))
			}
		})
	}
}
