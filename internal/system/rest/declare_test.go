package rest_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system/rest"
)

func TestPolicyDeclaresItsFacts(t *testing.T) {
	spec := &v1alpha1.EvictionPolicySpec{
		Evidence: v1alpha1.EvidenceLimits{MaxAge: metav1.Duration{Duration: time.Minute}},
		System: v1alpha1.System{
			HTTP: &v1alpha1.HTTP{
				Facts:       []v1alpha1.Get{{Name: "health", URL: "/_cluster/health"}},
				MemberFacts: []v1alpha1.Get{{Name: "stats", URL: "/_nodes/{{member.id}}/stats?ip={{pod.ip}}"}},
				Steps: []v1alpha1.Step{{
					Name: "Exclude", Do: v1alpha1.Call{Method: "PUT", URL: "/x", Body: `{"name": {{member.id}}}`},
					Undo: &v1alpha1.Call{Method: "DELETE", URL: "/x/{{system.health}}"},
				}},
				Replace: &v1alpha1.ReplaceSteps{
					Leave: []v1alpha1.ReplaceStep{{Name: "Forget", Do: v1alpha1.Call{Method: "DELETE", URL: "/{{member.id}}"}, Done: "member.id"}},
					Join: []v1alpha1.ReplaceStep{
						{Name: "Add", Do: v1alpha1.Call{Method: "PUT", URL: "/x", Body: "{{member"}, Done: `system.healthy == "x"`},
						{Name: "Wait", Do: v1alpha1.Call{Method: "PUT", URL: "/x"}, Done: "pod.ready"},
					},
				},
				Summary: "system.health.status",
			},
		},
		Members: []v1alpha1.MemberSelector{{Role: "node", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}},
		Roles: []v1alpha1.Role{{
			Name: "node", System: "http", Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorAnyPod},
			Evict: v1alpha1.Evict{
				Rules: []v1alpha1.Rule{
					{Name: "green", Expression: `system.health.status == "green"`, Message: "it is {{system.health.status}}"},
					{Name: "empty", Expression: `member.stats.shards == 0 && member.stat.docs == 0`, Message: "x"},
				},
				Prepare: []v1alpha1.Preparation{{Name: "Exclude", When: "member.stats.shards > 0", Message: "x"}},
			},
		}},
	}
	policy, problems := eviction.Compile(spec, nil, rest.Kind().Declaration(&spec.System))
	want := []eviction.Problem{
		{
			Path:    "spec.system.http.steps[0].undo.url",
			Message: "{{system.health}} uses something that is not known yet when the request is made: it may use member and pod",
		},
		{Path: "spec.system.http.replace.leave[0].done", Message: "the value is of type string and must be of type bool"},
		{Path: "spec.system.http.replace.join[0].do.body", Message: "{{ has no }}"},
		{Path: "spec.system.http.replace.join[0].done", Message: "there is no fact 'healthy' (at character 7)"},
		{Path: "spec.system.http.replace.join[1].done", Message: "it may use member and system only"},
		{Path: "spec.roles[0].evict.rules[1].expression", Message: "there is no fact 'stat' (at character 35)"},
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Error(diff)
	}
	if policy.MaxAge() != time.Minute {
		t.Error(policy.MaxAge())
	}
}
