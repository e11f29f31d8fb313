package systems

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"usher.sh/usher/internal/expression"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	driver "usher.sh/usher/internal/system/etcd"
	"usher.sh/usher/test/etcdsim"
)

// role compiles the built-in role as a policy would.
func role(t *testing.T) *eviction.Policy {
	t.Helper()
	kind := driver.Kind()
	roles, err := eviction.ParseRoles(kind.Roles)
	if err != nil {
		t.Fatal(err)
	}
	spec := &v1alpha1.EvictionPolicySpec{
		System: v1alpha1.System{Etcd: &v1alpha1.Etcd{MaxLag: 10}},
		Members: []v1alpha1.MemberSelector{{
			Role: "etcd-member", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "etcd"}},
		}},
	}
	policy, problems := eviction.Compile(spec, roles, kind.Declaration(&spec.System))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return policy
}

func judge(policy *eviction.Policy, e *eviction.Evidence, member string) eviction.Verdict {
	return eviction.Judge(eviction.Input{
		Pod:      &snapshot.Pod{Namespace: "db", Name: member, UID: "uid", Labels: map[string]string{"app": "etcd"}},
		Policies: []eviction.Declared{{Key: snapshot.Key{Namespace: "db", Name: "etcd"}, Policy: policy}},
		Evidence: e,
	})
}

func blockers(v eviction.Verdict) []string {
	var reasons []string
	for _, b := range v.Blockers {
		reasons = append(reasons, b.Reason)
	}
	return reasons
}

// Every member goes in turn, as a drain of all nodes would have it: its process ends, it comes back, the next one goes.
func TestEveryMemberInTurn(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 3})
	s, policy := c.open(t), role(t)
	moved := 0
	for _, m := range c.members {
		e := until(t, s, "quiet", quiet)
		v := judge(policy, e, m.name)
		for _, step := range v.Needed {
			if _, err := s.Prepare(t.Context(), step); err != nil {
				t.Fatal(err)
			}
			moved++
			v = judge(policy, until(t, s, "quiet", quiet), m.name)
		}
		if v.Answer != eviction.Allowed {
			t.Fatalf("%s may not go: %+v", m.name, v.Blockers)
		}
		c.stop(t, m)
		e = until(t, s, "two healthy voters", func(e *eviction.Evidence) bool { return e.System["healthyVoters"] == int64(2) })
		for _, o := range c.members {
			if v := judge(policy, e, o.name); o != m && v.Answer != eviction.Blocked {
				t.Errorf("%s may go while %s is away", o.name, m.name)
			}
		}
		c.run(t, m)
	}
	until(t, s, "three healthy voters", quiet)
	if moved == 0 {
		t.Error("leadership was never moved, and one of the three led")
	}
}

func TestVerdictsOnSmallClusters(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 1})
	v := judge(role(t), until(t, c.open(t), "quiet", quiet), "etcd-0")
	if v.Answer != eviction.Never || !slices.Contains(blockers(v), "NoQuorumPossible") {
		t.Errorf("%s: %v", v.Answer, blockers(v))
	}
}

// The simulator's facts are those of a real cluster, by name and by type.
func TestSimulatorSpeaksLikeEtcd(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 3})
	actual := until(t, c.open(t), "quiet", quiet)
	simulated := observe(t, etcdsim.New("etcd-0", "etcd-1", "etcd-2").Open(10, time.Second))
	equal(t, "system", types(actual.System), types(simulated.System))
	for _, m := range c.members {
		equal(t, m.name, types(actual.Members[m.name]), types(simulated.Members[m.name]))
	}
}

func types(facts expression.Facts) expression.Facts {
	all := expression.Facts{}
	for name, value := range facts {
		all[name] = fmt.Sprintf("%T", value)
	}
	return all
}

// One connection serves all looks, and nothing is left after Close.
func TestConnectionsAreKeptAndLetGo(t *testing.T) {
	t.Parallel()
	c := start(t, options{members: 1})
	proxy := newLink(t, c.members[0].client[len("http://"):])
	s := c.open(t, func(_ *v1alpha1.Etcd, a *system.Access) { a.Endpoints = []string{proxy.url} })
	for range 5 {
		until(t, s, "quiet", quiet)
	}
	if n := proxy.count(); n != 1 {
		t.Errorf("%d connections for five looks", n)
	}
	s.Close()
	proxy.empty(t)
	if _, err := s.Observe(t.Context(), nil); err == nil {
		t.Error("a closed system answers")
	}
}
