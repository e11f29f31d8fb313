package eviction

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

func TestCompileProblems(t *testing.T) {
	own := func(change func(*v1alpha1.Role)) func(*v1alpha1.EvictionPolicySpec) {
		return func(spec *v1alpha1.EvictionPolicySpec) {
			role := toyRoles()[0]
			change(&role)
			spec.Roles = []v1alpha1.Role{role}
		}
	}
	for name, c := range map[string]struct {
		given func(*v1alpha1.EvictionPolicySpec)
		want  []Problem
	}{
		"none": {given: func(*v1alpha1.EvictionPolicySpec) {}},
		"a rule": {
			given: own(func(r *v1alpha1.Role) { r.Evict.Rules[1].Expression = "member.leader" }),
			want:  []Problem{{"spec.roles[0].evict.rules[1].expression", "there is no fact 'leader' (at character 7)"}},
		},
		"a rule that is no condition": {
			given: own(func(r *v1alpha1.Role) { r.Replace.Rules[0].Expression = "member.lag" }),
			want:  []Problem{{"spec.roles[0].replace.rules[0].expression", "the value is of type int and must be of type bool"}},
		},
		"a message": {
			given: own(func(r *v1alpha1.Role) { r.Evict.Rules[0].Message = "{{member.shrads}}" }),
			want:  []Problem{{"spec.roles[0].evict.rules[0].message", "in {{member.shrads}}: there is no fact 'shrads' (at character 7)"}},
		},
		"an empty message": {
			given: own(func(r *v1alpha1.Role) { r.Evict.Rules[0].Message = " " }),
			want:  []Problem{{"spec.roles[0].evict.rules[0].message", "it must not be empty"}},
		},
		"a way out": {
			given: own(func(r *v1alpha1.Role) { r.Evict.Rules[0].WayOut = "{{" }),
			want:  []Problem{{"spec.roles[0].evict.rules[0].wayOut", "{{ has no }}"}},
		},
		"a step that the system does not know": {
			given: own(func(r *v1alpha1.Role) { r.Evict.Prepare[0].Name = "Dance" }),
			want:  []Problem{{"spec.roles[0].evict.prepare[0].name", `the system has no step "Dance": it has Drain, Resign`}},
		},
		"what is left is no number": {
			given: own(func(r *v1alpha1.Role) { r.Evict.Prepare[1].Left = "member.shards" }),
			want:  []Problem{{"spec.roles[0].evict.prepare[1].left", "the value is of type list(string) and must be of type int"}},
		},
		"two rules of one name": {
			given: own(func(r *v1alpha1.Role) { r.Evict.Rules[1].Name = "drained" }),
			want:  []Problem{{"spec.roles[0].evict.rules[1].name", `another rule has the name "drained"`}},
		},
		"a role of another system": {
			given: own(func(r *v1alpha1.Role) { r.System, r.Evict.Rules[0].Expression = "arangodb", "member.followers" }),
			want:  []Problem{{"spec.roles[0].system", "the role speaks of arangodb, the policy's system is etcd"}},
		},
		"no system": {
			given: func(spec *v1alpha1.EvictionPolicySpec) { spec.System.Etcd = nil },
			want:  []Problem{{"spec.system", "set exactly one of arangodb, etcd and http"}},
		},
		"an age that nothing is young enough for": {
			given: func(spec *v1alpha1.EvictionPolicySpec) { spec.System.MaxAge.Duration = time.Millisecond },
			want:  []Problem{{"spec.system.maxAge", "it is 1ms, and must be from 1s to 1m0s"}},
		},
		"an age of a day, and a patience of a minute": {
			given: func(spec *v1alpha1.EvictionPolicySpec) {
				spec.System.MaxAge.Duration, spec.System.Timeout.Duration = 24*time.Hour, time.Minute
			},
			want: []Problem{
				{"spec.system.maxAge", "it is 24h0m0s, and must be from 1s to 1m0s"},
				{"spec.system.timeout", "it is 1m0s, and must be from 1s to 30s"},
			},
		},
		"a role that is not there": {
			given: func(spec *v1alpha1.EvictionPolicySpec) { spec.Members[2].Role = "king" },
			want:  []Problem{{"spec.members[2].role", "there is no role \"king\": `usher roles` lists the built-in ones, spec.roles holds the policy's own"}},
		},
		"an empty selector": {
			given: func(spec *v1alpha1.EvictionPolicySpec) { spec.Members[0].Selector = metav1.LabelSelector{} },
			want:  []Problem{{"spec.members[0].selector", "it must not be empty: it would select every pod of the namespace"}},
		},
		"an id that is a number": {
			given: func(spec *v1alpha1.EvictionPolicySpec) { spec.Members[0].ID = "pod.priority" },
			want:  []Problem{{"spec.members[0].id", "the value is of type int and must be of type string"}},
		},
		"an id of more than the pod": {
			given: func(spec *v1alpha1.EvictionPolicySpec) { spec.Members[0].ID = "node.name" },
			want:  []Problem{{"spec.members[0].id", "it may speak of pod only"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := toySpec()
			c.given(spec)
			policy, got := Compile(spec, toyRoles(), toySchema, toySteps)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(got, policy.Problems()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOwnRoleTakesThePlaceOfABuiltIn(t *testing.T) {
	spec := toySpec()
	own := toyRoles()[1]
	own.Name, own.Description = "store", "mine"
	spec.Roles = []v1alpha1.Role{own}
	claim, ok := compiled(t, spec).Claim(toyPod("s0", "store"))
	if !ok || claim.Role.Description != "mine" || claim.Member != "m-s0" || claim.Entry != 0 {
		t.Errorf("%v %+v", ok, claim)
	}
}

func TestHTTPDeclaresItsFacts(t *testing.T) {
	spec := &v1alpha1.EvictionPolicySpec{
		System: v1alpha1.System{
			MaxAge: metav1.Duration{Duration: time.Minute},
			HTTP: &v1alpha1.HTTP{
				Facts:       []v1alpha1.Get{{Name: "health", URL: "/_cluster/health"}},
				MemberFacts: []v1alpha1.Get{{Name: "stats", URL: "/_nodes/{{member.id}}/stats?ip={{pod.ip}}"}},
				Steps: []v1alpha1.Step{{
					Name: "Exclude", Do: v1alpha1.Call{Method: "PUT", URL: "/x", Body: `{"name": {{member.id}}}`},
					Undo: &v1alpha1.Call{Method: "DELETE", URL: "/x/{{system.health}}"},
				}},
				Summary: "system.health.status",
			},
		},
		Members: []v1alpha1.MemberSelector{{Role: "node", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}},
		Roles: []v1alpha1.Role{{
			Name: "node", System: "http", Replace: v1alpha1.Replace{By: v1alpha1.ByAnyPod},
			Evict: v1alpha1.Evict{
				Rules: []v1alpha1.Rule{
					{Name: "green", Expression: `system.health.status == "green"`, Message: "it is {{system.health.status}}"},
					{Name: "empty", Expression: `member.stats.shards == 0 && member.stat.docs == 0`, Message: "x"},
				},
				Prepare: []v1alpha1.Preparation{{Name: "Exclude", When: "member.stats.shards > 0", Message: "x"}},
			},
		}},
	}
	policy, problems := Compile(spec, nil, Schema{Open: true}, nil)
	want := []Problem{
		{
			"spec.system.http.steps[0].undo.url",
			"{{system.health}} speaks of something that is not known yet when the request is made: it may speak of member and pod",
		},
		{"spec.roles[0].evict.rules[1].expression", "there is no fact 'stat' (at character 35)"},
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Error(diff)
	}
	if policy.MaxAge() != time.Minute {
		t.Error(policy.MaxAge())
	}
}

func TestClaims(t *testing.T) {
	in := world(t)
	twice := toySpec()
	twice.Members[1].Selector = twice.Members[0].Selector
	in.Policies = append(in.Policies, Declared{Key: snapshot.Key{Namespace: "shop", Name: "twice"}, Policy: compiled(t, twice)})
	var got []string
	for _, claim := range Claims(in.Policies, in.Pod) {
		got = append(got, claim.Policy.Name+"/"+claim.Role.Name+"/"+claim.Member)
	}
	if diff := cmp.Diff([]string{"db/store/m-s0", "twice/store/m-s0", "twice/router/m-s0"}, got); diff != "" {
		t.Error(diff)
	}
	blockers := Judge(in).Blockers
	if want := "db (spec.members[0]), twice (spec.members[0]) and twice (spec.members[1])"; !strings.Contains(blockers[0].Message, want) {
		t.Error(blockers[0].Message)
	}
}

func TestTolerations(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	noExecute := func(key string, secs *int64) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: secs}
	}
	const notReady, unreachable = corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable
	short := v1alpha1.Tolerations{NotReady: &v1alpha1.Toleration{Seconds: seconds(15)}, Unreachable: &v1alpha1.Toleration{Seconds: seconds(15)}}
	forever := v1alpha1.Tolerations{NotReady: &v1alpha1.Toleration{Forever: true}, Unreachable: &v1alpha1.Toleration{Forever: true}}
	other := corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}
	for name, c := range map[string]struct {
		role      v1alpha1.Tolerations
		own, want []corev1.Toleration
	}{
		"none of both":                  {own: []corev1.Toleration{other}, want: []corev1.Toleration{other}},
		"added":                         {role: short, own: []corev1.Toleration{other}, want: []corev1.Toleration{other, noExecute(notReady, seconds(15)), noExecute(unreachable, seconds(15))}},
		"forever":                       {role: forever, want: []corev1.Toleration{noExecute(notReady, nil), noExecute(unreachable, nil)}},
		"the author's wins":             {role: short, own: []corev1.Toleration{noExecute(notReady, seconds(60))}, want: []corev1.Toleration{noExecute(notReady, seconds(60)), noExecute(unreachable, seconds(15))}},
		"the author's, for ever":        {role: short, own: []corev1.Toleration{noExecute(notReady, nil), noExecute(unreachable, nil)}, want: []corev1.Toleration{noExecute(notReady, nil), noExecute(unreachable, nil)}},
		"any key":                       {role: short, own: []corev1.Toleration{noExecute("", nil)}, want: []corev1.Toleration{noExecute("", nil)}},
		"any effect":                    {role: short, own: []corev1.Toleration{{Key: notReady, Operator: corev1.TolerationOpExists}}, want: []corev1.Toleration{{Key: notReady, Operator: corev1.TolerationOpExists}, noExecute(unreachable, seconds(15))}},
		"another effect":                {role: short, own: []corev1.Toleration{{Key: notReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, want: []corev1.Toleration{{Key: notReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}, noExecute(notReady, seconds(15)), noExecute(unreachable, seconds(15))}},
		"the server's defaults":         {role: forever, own: []corev1.Toleration{other, noExecute(notReady, seconds(300)), noExecute(unreachable, seconds(300))}, want: []corev1.Toleration{other, noExecute(notReady, nil), noExecute(unreachable, nil)}},
		"a default beside the author's": {role: short, own: []corev1.Toleration{noExecute(notReady, seconds(60)), noExecute(unreachable, seconds(300))}, want: []corev1.Toleration{noExecute(notReady, seconds(60)), noExecute(unreachable, seconds(15))}},
	} {
		before := append([]corev1.Toleration{}, c.own...)
		got := Tolerations(&v1alpha1.Role{Tolerations: c.role}, c.own)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(got, Tolerations(&v1alpha1.Role{Tolerations: c.role}, got)); diff != "" {
			t.Errorf("%s, once more: %s", name, diff)
		}
		if !cmp.Equal(before, append([]corev1.Toleration{}, c.own...)) {
			t.Errorf("%s: the input was changed", name)
		}
	}
}

func TestParseRoles(t *testing.T) {
	good := "name: a\nsystem: etcd\nstate: None\nidentity: None\nevict: {}\nreplace: {by: AnyPod}\n"
	roles, err := ParseRoles(fstest.MapFS{
		"b.yaml": {Data: []byte(strings.Replace(good, "name: a", "name: b", 1))}, "a.yaml": {Data: []byte(good)}, "README.md": {Data: []byte("#")},
	})
	if err != nil || len(roles) != 2 || roles[0].Name != "a" || roles[1].Replace.By != v1alpha1.ByAnyPod {
		t.Errorf("%v %+v", err, roles)
	}
	for _, text := range []string{good + "evikt: {}\n", strings.Replace(good, "by", "buy", 1), "name: a\n", good + "name: b\n", "- a"} {
		if _, err := ParseRoles(fstest.MapFS{"x.yaml": {Data: []byte(text)}}); err == nil || !strings.Contains(err.Error(), "x.yaml") {
			t.Errorf("%q: got %v, want an error that names the file", text, err)
		}
	}
}
