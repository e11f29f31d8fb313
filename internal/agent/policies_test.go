package agent

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/nodepressure"
)

// A pod that stays by a policy that was read is exempt, whichever of several entries says so, and whatever the policy says of node pressure.
func TestPoliciesThatHavePodsStay(t *testing.T) {
	vm := map[string]string{"app": "vm"}
	of := func(name string, leaves v1alpha1.LeavesMode, change ...func(*v1alpha1.EvictionPolicySpec)) v1alpha1.EvictionPolicy {
		p := v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.EvictionPolicySpec{Members: []v1alpha1.MemberSelector{
			{Selector: metav1.LabelSelector{MatchLabels: vm}, Leaves: leaves, OnNodePressure: v1alpha1.PressureLastResort},
		}}}
		for _, c := range change {
			c(&p.Spec)
		}
		return p
	}
	suspended := func(s *v1alpha1.EvictionPolicySpec) { s.Suspend = true }
	audited := func(s *v1alpha1.EvictionPolicySpec) { s.Mode = v1alpha1.ModeAudit }
	blind := func(s *v1alpha1.EvictionPolicySpec) {
		s.Members[0].Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}
	}
	others := func(s *v1alpha1.EvictionPolicySpec) {
		s.Members[0].Selector.MatchLabels = map[string]string{"app": "db"}
	}
	for name, c := range map[string]struct {
		all  []v1alpha1.EvictionPolicy
		want bool
	}{
		"nothing is known":                {nil, false},
		"it leaves":                       {[]v1alpha1.EvictionPolicy{of("cloud", v1alpha1.LeavesPod)}, false},
		"it stays":                        {[]v1alpha1.EvictionPolicy{of("cloud", v1alpha1.LeavesLoad)}, true},
		"by a suspended policy":           {[]v1alpha1.EvictionPolicy{of("cloud", v1alpha1.LeavesLoad, suspended)}, true},
		"by one in mode Audit":            {[]v1alpha1.EvictionPolicy{of("cloud", v1alpha1.LeavesLoad, audited)}, false},
		"by one of two":                   {[]v1alpha1.EvictionPolicy{of("cloud", v1alpha1.LeavesPod), of("other", v1alpha1.LeavesLoad)}, true},
		"by what is no selector":          {[]v1alpha1.EvictionPolicy{of("cloud", v1alpha1.LeavesLoad, blind)}, true},
		"by what is none, of another one": {[]v1alpha1.EvictionPolicy{of("other", v1alpha1.LeavesLoad, blind)}, false},
		"other pods":                      {[]v1alpha1.EvictionPolicy{of("cloud", v1alpha1.LeavesLoad, others)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicies(nil)
			p.known["shop"] = said{read: time.Unix(1, 0), rules: rulesOf(c.all)}
			r := &resident{pod: nodepressure.Pod{Namespace: "shop", Name: "nova", Governed: true, Policy: "cloud"}, labels: vm}
			if got := p.stays(r); got != c.want {
				t.Errorf("it stays: %v", got)
			}
		})
	}
}

// A pod that stays is neither asked to leave nor removed, at whatever threshold.
func TestWhatStaysIsExempt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.agent.loop.podUsage.policyOf = func(*resident, time.Time) (bool, v1alpha1.PressureMode) { return true, v1alpha1.PressureLastResort }
		w.agent.loop.podUsage.stays = func(*resident) bool { return true }
		w.synced(w.pod("member", 920, governedBy("db")))
	}, func(w *world) {
		pass(5 * time.Second)
		for _, deed := range []string{"request member", "evict member 0s", "break member", "remove member"} {
			if slices.Contains(w.cluster.log(), deed) {
				t.Errorf("asked %q", w.cluster.log())
			}
		}
	})
}
