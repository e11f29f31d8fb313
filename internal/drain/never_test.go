package drain_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
)

// A drain must not wait for a pod that can never go: what Usher says of one as its responder is what a drain recognises.
func TestNeverAsUsherSaysIt(t *testing.T) {
	for never, want := range map[bool]struct {
		holds string
		does  []string
	}{
		true:  {"db-0: SystemDecides!", []string{"mark a blocked"}},
		false: {"db-0: SystemDecides", nil},
	} {
		s := tell(t, ask("a"), node("a", ours), pod("db-0", on("a"), ofSet("db"), governed), statefulSet("db", 3),
			askedBy(me, "db-0"), evictionOf("db-0", "responder.usher.sh/governor", reportOf(t, never)))
		s.expect(want.does...)
		s.holds(want.holds)
		s.ends(drain.Running)
	}
}

// reportOf returns what Usher reports of a pod whose one rule does not pass.
func reportOf(t *testing.T, never bool) string {
	t.Helper()
	spec := &v1alpha1.EvictionPolicySpec{
		System:  v1alpha1.System{Etcd: &v1alpha1.Etcd{}},
		Members: []v1alpha1.MemberSelector{{Role: "single", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, ID: "pod.name"}},
		Roles: []v1alpha1.Role{{
			Name: "single", System: "etcd", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
			Evict:   v1alpha1.Evict{Rules: []v1alpha1.Rule{{Name: "alone", Reason: "Alone", Expression: "false", Message: "there is no other server", Never: never}}},
			Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNone},
		}},
	}
	policy, problems := eviction.Compile(spec, nil, eviction.Declaration{Kind: "etcd"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	step := eviction.Step(eviction.ResponderInput{
		Input: eviction.Input{
			Now: start,
			Pod: &snapshot.Pod{
				Namespace: "default", Name: "db-0", UID: types.UID("uid-db-0"), Node: "a", Phase: corev1.PodRunning,
				Labels: map[string]string{"app": "db"},
			},
			Policies: []eviction.Declared{{Key: snapshot.Key{Namespace: "default", Name: "db"}, Policy: policy}},
			Evidence: &eviction.Evidence{Observed: start, Members: map[string]expression.Facts{"db-0": {}}},
		},
		Wanted: true, Active: true,
	})
	for _, action := range step.Actions {
		if action.Kind == eviction.Respond {
			return action.Report.Message
		}
	}
	t.Fatalf("Usher reports nothing: %+v", step)
	return ""
}
