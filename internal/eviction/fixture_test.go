package eviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"

	"usher.sh/usher/internal/expression"
)

var (
	toySteps    = map[string]string{"Drain": "moves its shards away", "Resign": "gives its leadership away"}
	toyDeclared = Declaration{Kind: "etcd", Schema: toySchema, Steps: toySteps}
)

// toyRoles are built in: one that holds data, one that holds nothing, one that never leaves.
func toyRoles() []v1alpha1.Role {
	return []v1alpha1.Role{
		{
			Name: "store", System: "etcd", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
			Evict: v1alpha1.Evict{
				Settle: &metav1.Duration{},
				Rules: []v1alpha1.Rule{
					{
						Name: "drained", Reason: "NotDrained", Expression: "member.drained",
						Message: "{{member.id}} still holds shards {{member.shards}}", Remedy: "move {{size(member.shards)}} shards",
					},
					{Name: "no-leader", Reason: "IsLeader", Expression: "system.leader != member.id", Message: "{{member.id}} leads"},
				},
				Prepare: []v1alpha1.Preparation{
					{Name: "Resign", When: "system.leader == member.id", Message: "{{member.id}} hands its leadership over", ExpectedDuration: metav1.Duration{Duration: 5 * time.Second}},
					{Name: "Drain", When: "!member.drained", Message: "{{size(member.shards)}} shards are to be moved", Remaining: "size(member.shards)"},
				},
			},
			Replace: v1alpha1.Replace{
				Successor: v1alpha1.SuccessorSameIdentity,
				Rules:     []v1alpha1.Rule{{Name: "deleted", Reason: "NotDeleted", Expression: "pod.deleted", Message: "the old pod is there"}},
			},
		},
		{
			Name: "router", System: "etcd", State: v1alpha1.StateNone, Identity: v1alpha1.IdentityNone,
			Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorAnyPod},
		},
		{
			Name: "single", System: "etcd", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
			Evict: v1alpha1.Evict{Rules: []v1alpha1.Rule{
				{Name: "never", Reason: "Single", Expression: "false", Message: "there is no other server", Never: true},
			}},
			Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNone},
		},
	}
}

func toySpec() *v1alpha1.EvictionPolicySpec {
	member := func(role string) v1alpha1.MemberSelector {
		return v1alpha1.MemberSelector{
			Role: role, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"role": role}},
			ID: `"m-" + pod.name`, Deletes: v1alpha1.DeleteGuard,
		}
	}
	return &v1alpha1.EvictionPolicySpec{
		System:  v1alpha1.System{Etcd: &v1alpha1.Etcd{}},
		Members: []v1alpha1.MemberSelector{member("store"), member("router"), member("single")},
	}
}

func compiled(t testing.TB, spec *v1alpha1.EvictionPolicySpec) *Policy {
	t.Helper()
	policy, problems := Compile(spec, toyRoles(), toyDeclared)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return policy
}

// toyPod has the label, as Usher writes it: not on members of the role that asks nothing.
func toyPod(name, role string) *snapshot.Pod {
	pod := &snapshot.Pod{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Node: "node-a", Phase: corev1.PodRunning, Ready: true,
		Labels: map[string]string{"role": role, v1alpha1.PolicyLabel: "db"}, Created: noon.Add(-time.Hour), Grace: 30 * time.Second,
		Owner: snapshot.Owner{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"},
	}
	if role == "router" {
		delete(pod.Labels, v1alpha1.PolicyLabel)
	}
	return pod
}

var daemonSet = snapshot.Owner{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent"}

func terminating(pod *snapshot.Pod) *snapshot.Pod {
	pod.Deletion = noon.Add(30 * time.Second)
	return pod
}

// world is a database of three stores; what it says lets s0 go.
func world(t testing.TB) Input {
	t.Helper()
	return Input{
		Now: noon,
		Pod: toyPod("s0", "store"),
		Policies: []Declared{{
			Key: snapshot.Key{Namespace: "shop", Name: "db"}, Version: "7", Policy: compiled(t, toySpec()),
			Status: &v1alpha1.EvictionPolicyStatus{Epoch: 4}, Held: true,
		}},
		Evidence: &Evidence{
			Observed: noon.Add(-3 * time.Second), Epoch: 4,
			System: expression.Facts{"leader": "m-s1"},
			Members: map[string]expression.Facts{
				"m-s0": {"drained": true, "shards": []string{}},
				"m-s1": {"drained": false, "shards": []string{"a", "b"}},
			},
		},
		Peers: []*snapshot.Pod{toyPod("s0", "store"), toyPod("s1", "store"), toyPod("s2", "store"), toyPod("r0", "router")},
	}
}

func leaves(pod, role string, since time.Time) v1alpha1.Leaving {
	return v1alpha1.Leaving{
		MemberRef: v1alpha1.MemberRef{Role: role, ID: "m-" + pod, PodName: pod, PodUID: types.UID("uid-" + pod), Node: "node-a"},
		StartTime: metav1.NewTime(since), Requester: "another",
	}
}

func begun(step, pod string, state v1alpha1.PreparationState, asked time.Time) v1alpha1.PreparationStatus {
	return v1alpha1.PreparationStatus{
		MemberRef: v1alpha1.MemberRef{Role: "store", ID: "m-" + pod, PodName: pod, PodUID: types.UID("uid-" + pod)},
		Name:      step, State: state, StartTime: metav1.NewTime(asked), LastRequestTime: metav1.NewTime(asked),
	}
}

func reasons(v Verdict) []string {
	var found []string
	for i := range v.Blockers {
		found = append(found, v.Blockers[i].Reason)
	}
	return found
}

func stepNames(v Verdict) []string {
	var found []string
	for i := range v.Needed {
		found = append(found, v.Needed[i].Name)
	}
	return found
}

func kinds(actions []Action) []ActionKind {
	var found []ActionKind
	for i := range actions {
		found = append(found, actions[i].Kind)
	}
	return found
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// toySchema is that of a database whose members hold shards.
var toySchema = expression.Schema{
	System: []expression.Field{
		{Name: "leader", Type: expression.String}, {Name: "healthy", Type: expression.Bool}, {Name: "quorum", Type: expression.Int},
	},
	Member: []expression.Field{
		{Name: "drained", Type: expression.Bool},
		{Name: "shards", Type: expression.Strings},
		{Name: "lag", Type: expression.Int},
		{Name: "load", Type: expression.Double},
		{Name: "seen", Type: expression.Time},
		{Name: "extra", Type: expression.Dynamic},
	},
}
