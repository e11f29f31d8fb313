package observe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// An entry that cannot be used says nothing but that some pods stay, where it says so.
func TestPolicyFacts(t *testing.T) {
	entry := func(leaves v1alpha1.LeavesMode, selector metav1.LabelSelector) v1alpha1.MemberSelector {
		return v1alpha1.MemberSelector{Role: "hypervisor", Leaves: leaves, Selector: selector}
	}
	vms := metav1.LabelSelector{MatchLabels: map[string]string{"role": "vm"}}
	invalid := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: "Is"}}}
	type facts struct{ Members, Loads, Unread int }
	for name, c := range map[string]struct {
		mode    v1alpha1.PolicyMode
		members []v1alpha1.MemberSelector
		want    facts
	}{
		"pods that stay, and others":  {"", []v1alpha1.MemberSelector{entry(v1alpha1.LeavesLoad, vms), entry(v1alpha1.LeavesPod, vms)}, facts{2, 1, 0}},
		"a selector of no use":        {"", []v1alpha1.MemberSelector{entry(v1alpha1.LeavesLoad, invalid), entry(v1alpha1.LeavesPod, vms)}, facts{1, 0, 1}},
		"an empty one":                {"", []v1alpha1.MemberSelector{entry(v1alpha1.LeavesLoad, metav1.LabelSelector{})}, facts{0, 0, 1}},
		"one of pods that leave":      {"", []v1alpha1.MemberSelector{entry(v1alpha1.LeavesPod, invalid)}, facts{}},
		"one of a policy that audits": {v1alpha1.ModeAudit, []v1alpha1.MemberSelector{entry(v1alpha1.LeavesLoad, invalid)}, facts{}},
	} {
		t.Run(name, func(t *testing.T) {
			policy := PolicyFacts(&v1alpha1.EvictionPolicy{Spec: v1alpha1.EvictionPolicySpec{Mode: c.mode, Members: c.members}})
			got := facts{Members: len(policy.Members)}
			for _, m := range policy.Members {
				if m.Load {
					got.Loads++
				}
			}
			if policy.LoadUnread {
				got.Unread++
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A drain has the waiter of a nodeLock leave after its holders.
func TestPolicyFactsOfANodeLock(t *testing.T) {
	spec := v1alpha1.EvictionPolicySpec{NodeLock: &v1alpha1.NodeLock{Holders: []string{"router"}, Waiter: "agent"}}
	for _, role := range []string{"agent", "router"} {
		spec.Members = append(spec.Members, v1alpha1.MemberSelector{Role: role, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"role": role}}})
	}
	facts := PolicyFacts(&v1alpha1.EvictionPolicy{Spec: spec})
	if diff := cmp.Diff([]string{"router"}, facts.Members[0].LeavesAfter); diff != "" || facts.Members[1].LeavesAfter != nil {
		t.Errorf("the agent leaves after: %s; the router after %v", diff, facts.Members[1].LeavesAfter)
	}
}
