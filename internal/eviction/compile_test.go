package eviction

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
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
		"a remedy": {
			given: own(func(r *v1alpha1.Role) { r.Evict.Rules[0].Remedy = "{{" }),
			want:  []Problem{{"spec.roles[0].evict.rules[0].remedy", "{{ has no }}"}},
		},
		"a step that the system does not know": {
			given: own(func(r *v1alpha1.Role) { r.Evict.Prepare[0].Name = "Dance" }),
			want:  []Problem{{"spec.roles[0].evict.prepare[0].name", `the system has no step "Dance": it has Drain, Resign`}},
		},
		"what is left is no number": {
			given: own(func(r *v1alpha1.Role) { r.Evict.Prepare[1].Remaining = "member.shards" }),
			want:  []Problem{{"spec.roles[0].evict.prepare[1].remaining", "the value is of type list(string) and must be of type int"}},
		},
		"a role after itself": {
			given: after(0, "store"),
			want:  []Problem{{"spec.members[0].leavesAfter[0]", `role "store" cannot leave after itself: name another role of the policy`}},
		},
		"a role after one that is not there": {
			given: after(0, "router", "proxy"),
			want:  []Problem{{"spec.members[0].leavesAfter[1]", `no entry of spec.members has role "proxy": name a role that is in this policy`}},
		},
		"roles in a line": {given: func(s *v1alpha1.EvictionPolicySpec) { after(0, "router")(s); after(1, "single")(s) }},
		"roles in a circle": {
			given: func(s *v1alpha1.EvictionPolicySpec) {
				after(0, "router")(s)
				after(1, "single")(s)
				after(2, "router")(s)
			},
			want: []Problem{{
				"spec.members[1].leavesAfter",
				"roles wait for each other in a circle, so that none could ever leave: router after single after router; take one of them out",
			}},
		},
		"two rules of one name": {
			given: own(func(r *v1alpha1.Role) { r.Evict.Rules[1].Name = "drained" }),
			want:  []Problem{{"spec.roles[0].evict.rules[1].name", `another rule has the name "drained"`}},
		},
		"a role of another system": {
			given: own(func(r *v1alpha1.Role) { r.System, r.Evict.Rules[0].Expression = "arangodb", "member.followers" }),
			want:  []Problem{{"spec.roles[0].system", "the role is for arangodb, the policy's system is etcd"}},
		},
		"an age that nothing is young enough for": {
			given: func(spec *v1alpha1.EvictionPolicySpec) { spec.Evidence.MaxAge.Duration = time.Millisecond },
			want:  []Problem{{"spec.evidence.maxAge", "it is 1ms, and must be from 1s to 1m0s"}},
		},
		"an age of a day, and a patience of a minute": {
			given: func(spec *v1alpha1.EvictionPolicySpec) {
				spec.Evidence.MaxAge.Duration, spec.Evidence.Timeout.Duration = 24*time.Hour, time.Minute
			},
			want: []Problem{
				{"spec.evidence.maxAge", "it is 24h0m0s, and must be from 1s to 1m0s"},
				{"spec.evidence.timeout", "it is 1m0s, and must be from 1s to 30s"},
			},
		},
		"a role that is not there": {
			given: func(spec *v1alpha1.EvictionPolicySpec) { spec.Members[2].Role = "king" },
			want:  []Problem{{"spec.members[2].role", "there is no role \"king\": `usher roles` lists the built-in ones, spec.roles holds the policy's own"}},
		},
		"a last resort that stays": {
			given: func(spec *v1alpha1.EvictionPolicySpec) {
				spec.Members[0].Leaves, spec.Members[0].OnNodePressure = v1alpha1.LeavesLoad, v1alpha1.PressureLastResort
			},
			want: []Problem{{"spec.members[0].onNodePressure", "it must not be LastResort where leaves is Load: the pod stays on its node, come what may"}},
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
			want:  []Problem{{"spec.members[0].id", "it may use pod only"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := toySpec()
			c.given(spec)
			policy, got := Compile(spec, toyRoles(), toyDeclared)
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

func TestASystemIsDeclared(t *testing.T) {
	_, got := Compile(toySpec(), toyRoles(), Declaration{Schema: toySchema, Steps: toySteps})
	if diff := cmp.Diff([]Problem{{"spec.system", "set exactly one kind of system"}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTextsOfTheSystemAreChecked(t *testing.T) {
	declared := toyDeclared
	declared.Texts = []Text{
		{Path: "a", Text: "system.leader", Over: []string{"system"}},
		{Path: "b", Text: "member.lag", Over: []string{"system"}},
		{Path: "c", Text: "/x/{{member.id}}?ip={{pod.ip}}", Template: true, Over: []string{"member", "pod"}},
		{Path: "d", Text: "/x/{{system.leader}}", Template: true, Over: []string{"member", "pod"}},
		{Path: "e", Text: "system.lender", Over: []string{"system"}},
	}
	_, got := Compile(toySpec(), toyRoles(), declared)
	want := []Problem{
		{"b", "it may use system only"},
		{"d", "{{system.leader}} uses something that is not known yet when the request is made: it may use member and pod"},
		{"e", "there is no fact 'lender' (at character 7)"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
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

func TestParseRoles(t *testing.T) {
	good := "name: a\nsystem: etcd\nstate: None\nidentity: None\nevict: {}\nreplace: {successor: AnyPod}\n"
	roles, err := ParseRoles(fstest.MapFS{
		"b.yaml": {Data: []byte(strings.Replace(good, "name: a", "name: b", 1))}, "a.yaml": {Data: []byte(good)}, "README.md": {Data: []byte("#")},
	})
	if err != nil || len(roles) != 2 || roles[0].Name != "a" || roles[1].Replace.Successor != v1alpha1.SuccessorAnyPod {
		t.Errorf("%v %+v", err, roles)
	}
	for _, text := range []string{good + "evikt: {}\n", strings.Replace(good, "successor", "replacedBy", 1), "name: a\n", good + "name: b\n", "- a"} {
		if _, err := ParseRoles(fstest.MapFS{"x.yaml": {Data: []byte(text)}}); err == nil || !strings.Contains(err.Error(), "x.yaml") {
			t.Errorf("%q: got %v, want an error that names the file", text, err)
		}
	}
}
