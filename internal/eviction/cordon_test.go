package eviction

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// cordonable is a spec whose stores stay, and are emptied for a cordon.
func cordonable(changes ...func(*v1alpha1.EvictionPolicySpec)) *v1alpha1.EvictionPolicySpec {
	spec := toySpec()
	spec.Members[0].Leaves, spec.Members[0].EmptyOn = v1alpha1.LeavesLoad, v1alpha1.EmptyOnCordon
	for _, change := range changes {
		change(spec)
	}
	return spec
}

func forCordon(pod *snapshot.Pod) *AdmissionRequest {
	return &AdmissionRequest{Pod: pod.Key(), UID: pod.UID, Requester: "requester.usher.sh/" + CordonUser, Asked: noon, Empties: true}
}

func onRequest(s *v1alpha1.EvictionPolicySpec) { s.Members[0].EmptyOn = v1alpha1.EmptyOnRequest }
func suspended(s *v1alpha1.EvictionPolicySpec) { s.Suspend = true }
func unreadable(s *v1alpha1.EvictionPolicySpec) {
	s.Members[0].Selector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: "Alike"}}}
}

func TestFollowCordon(t *testing.T) {
	cordoned, schedulable := &snapshot.Node{Name: "node-a", Unschedulable: true}, &snapshot.Node{Name: "node-a"}
	for name, c := range map[string]struct {
		change  func(*v1alpha1.EvictionPolicySpec)
		node    *snapshot.Node
		pod     *snapshot.Pod
		deleted bool
		stands  bool
		want    ActionKind
	}{
		"cordoned":                             {node: cordoned, want: Request},
		"cordoned, and requested":              {node: cordoned, stands: true},
		"schedulable":                          {node: schedulable},
		"schedulable again":                    {node: schedulable, stands: true, want: Withdraw},
		"its node is gone":                     {stands: true, want: Withdraw},
		"emptied on request alone":             {change: onRequest, node: cordoned},
		"emptied on request from now on":       {change: onRequest, node: cordoned, stands: true, want: Withdraw},
		"suspended":                            {change: suspended, node: cordoned},
		"suspended from now on":                {change: suspended, node: cordoned, stands: true, want: Withdraw},
		"its policy is being deleted":          {node: cordoned, deleted: true},
		"its policy is being deleted by now":   {node: cordoned, deleted: true, stands: true, want: Withdraw},
		"its selector cannot be read":          {change: unreadable, node: cordoned},
		"its selector cannot be read any more": {change: unreadable, node: cordoned, stands: true},
		"another member":                       {node: cordoned, pod: toyPod("r0", "router")},
		"another role's from now on":           {node: cordoned, pod: toyPod("r0", "router"), stands: true, want: Withdraw},
		"terminating":                          {node: cordoned, pod: terminating(toyPod("s0", "store"))},
		"terminating, and requested":           {node: cordoned, pod: terminating(toyPod("s0", "store")), stands: true},
		"terminating on a node given back":     {node: schedulable, pod: terminating(toyPod("s0", "store")), stands: true, want: Withdraw},
	} {
		t.Run(name, func(t *testing.T) {
			spec := cordonable()
			if c.change != nil {
				c.change(spec)
			}
			in := CordonInput{Policies: world(t).Policies, Pod: c.pod, Node: c.node}
			in.Policies[0].Policy, _ = Compile(spec, toyRoles(), toyDeclared)
			in.Policies[0].Deleted = c.deleted
			if in.Pod == nil {
				in.Pod = toyPod("s0", "store")
			}
			if c.stands {
				in.Standing = forCordon(in.Pod)
			}
			got := FollowCordon(in)
			switch {
			case got == nil && c.want == "":
			case got == nil || got.Kind != c.want || got.Pod != in.Pod.Key() || got.UID != in.Pod.UID:
				t.Errorf("%+v, want %q", got, c.want)
			case got.Kind == Withdraw && got.Requester != in.Standing.Requester:
				t.Errorf("withdraws the request of %s", got.Requester)
			}
		})
	}
}

// What was requested for a cordon empties a pod, and never has one evicted: not in the moment either in which its policy says that it leaves.
func TestARequestForACordonEvictsNoPod(t *testing.T) {
	load := func(s *v1alpha1.EvictionPolicySpec) { s.Members[0].Leaves = v1alpha1.LeavesPod; onRequest(s) }
	for name, c := range map[string]struct {
		change func(*v1alpha1.EvictionPolicySpec)
		others bool
		want   []ActionKind
	}{
		"it stays":                      {want: []ActionKind{Empty, Respond}},
		"it leaves now":                 {change: load, want: []ActionKind{Withdraw}},
		"it leaves now, and others ask": {change: load, others: true, want: []ActionKind{Withdraw}},
		"it stays on request alone":     {change: onRequest, want: []ActionKind{Withdraw}},
		"its policy is suspended":       {change: suspended, want: []ActionKind{Withdraw}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := cordonable()
			if c.change != nil {
				c.change(spec)
			}
			in := loaded(t, "s0")
			in.Policies[0].Policy = compiled(t, spec)
			in.Requests, in.OnlyAdmission = []AdmissionRequest{*forCordon(in.Pod)}, !c.others
			got := Step(in)
			if diff := cmp.Diff(c.want, kinds(got.Actions)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARequestForACordonDoesNotExpire(t *testing.T) {
	pod := toyPod("s0", "store")
	if withdraw, at := forCordon(pod).Expire(pod, noon.AddDate(1, 0, 0)); withdraw != nil || !at.IsZero() {
		t.Errorf("%+v at %s", withdraw, at)
	}
}

func TestEmptyOnCordonNeedsLoad(t *testing.T) {
	spec := cordonable(func(s *v1alpha1.EvictionPolicySpec) { s.Members[0].Leaves = v1alpha1.LeavesPod })
	policy, problems := Compile(spec, toyRoles(), toyDeclared)
	if len(problems) != 1 || problems[0].Path != "spec.members[0].emptyOn" {
		t.Errorf("problems %v", problems)
	}
	node := &snapshot.Node{Name: "node-a", Unschedulable: true}
	in := CordonInput{Policies: world(t).Policies, Pod: toyPod("s0", "store"), Node: node}
	in.Policies[0].Policy = policy
	if got := FollowCordon(in); got != nil {
		t.Errorf("a pod that leaves its node: %+v", got)
	}
	in.Pod.Phase = corev1.PodSucceeded
	in.Policies[0].Policy = compiled(t, cordonable())
	if got := FollowCordon(in); got != nil {
		t.Errorf("a pod that has ended: %+v", got)
	}
}
