package rest_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

// Whatever a server answers becomes facts or an error, and a rule over it ends in a verdict; only a system that says so
// lets a member go.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{`{"ok": true}`, `{"ok": 1}`, `[]`, `null`, `{"ok": {"ok": [null]}}`, `1e999`, "\xff", `{"ok":true}x`, `[[[[[]]]]]`} {
		f.Add(200, seed, "m")
	}
	f.Add(500, "x", "a b")
	spec := &v1alpha1.EvictionPolicySpec{
		System: v1alpha1.System{HTTP: &v1alpha1.HTTP{
			Facts: get("health", "/h"), MemberFacts: get("node", "/n/{{member.id}}"), Summary: `string(system.health)`,
		}},
		Members: []v1alpha1.MemberSelector{{
			Role: "r", ID: `pod.annotations["id"]`, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		}},
		Roles: []v1alpha1.Role{{
			Name: "r", System: "http", State: v1alpha1.StatePersistent, Identity: v1alpha1.IdentityUnique,
			Evict: v1alpha1.Evict{Rules: []v1alpha1.Rule{{
				Name: "ok", Reason: "NotOK", Expression: "system.health.ok && member.node.ok", Message: "{{system.health}} {{member.node}}",
			}}},
			Replace: v1alpha1.Replace{Successor: v1alpha1.SuccessorNone},
		}},
	}
	policy, problems := eviction.Compile(spec, nil, rest.Kind().Declaration(&spec.System))
	if len(problems) > 0 {
		f.Fatal(problems)
	}
	f.Fuzz(func(t *testing.T, status int, body, id string) {
		pod := &snapshot.Pod{
			Namespace: "ns", Name: "p", UID: "u", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"id": id},
		}
		s, err := rest.Open(&spec.System, system.Access{
			Endpoints: []string{"http://one"}, Timeout: time.Second, Transport: always{status, body},
		})
		if err != nil {
			t.Fatal(err)
		}
		evidence, err := s.Observe(t.Context(), []system.Member{{MemberRef: v1alpha1.MemberRef{ID: id}, Pod: pod}})
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			evidence = &eviction.Evidence{Error: err.Error()}
		}
		v := eviction.Judge(eviction.Input{Pod: pod, Evidence: evidence, Policies: []eviction.Declared{{Policy: policy, Key: pod.Key()}}})
		fact, _ := evidence.System["health"].(map[string]any)
		if v.Answer == eviction.Allowed && fact["ok"] != true {
			t.Errorf("allowed because of %d %q", status, body)
		}
		if v.Answer != eviction.Allowed && (len(v.Blockers) == 0 || v.Blockers[0].Message == "") {
			t.Errorf("blocked without words: %+v", v)
		}
	})
}
