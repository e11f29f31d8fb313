package etcd_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/etcd"
	"usher.sh/usher/test/etcdsim"
)

const (
	maxLag = 10
	// patience is for machines that are busy: a simulated cluster answers, or is silent, at once.
	patience = time.Minute
)

// judge is what a policy with the built-in role says of a simulated cluster's members.
type judge struct {
	policy *eviction.Policy
	system system.System
}

func newJudge(t testing.TB, sim *etcdsim.Cluster) *judge {
	t.Helper()
	return &judge{policy: compiled(t), system: sim.Open(maxLag, patience)}
}

func compiled(t testing.TB) *eviction.Policy {
	t.Helper()
	kind := etcd.Kind()
	roles, err := eviction.ParseRoles(kind.Roles)
	if err != nil {
		t.Fatal(err)
	}
	spec := &v1alpha1.EvictionPolicySpec{
		System: v1alpha1.System{Etcd: &v1alpha1.Etcd{MaxLag: maxLag}},
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

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (j *judge) observe(t testing.TB) *eviction.Evidence {
	t.Helper()
	evidence, err := j.system.Observe(t.Context(), nil)
	if err != nil {
		evidence = &eviction.Evidence{Error: err.Error()}
	}
	evidence.Observed = now
	return evidence
}

func (j *judge) input(evidence *eviction.Evidence, member string) eviction.Input {
	return eviction.Input{
		Now: now,
		Pod: &snapshot.Pod{Namespace: "db", Name: member, UID: "uid", Labels: map[string]string{"app": "etcd"}},
		Policies: []eviction.Declared{{
			Key: snapshot.Key{Namespace: "db", Name: "etcd"}, Policy: j.policy, Status: &v1alpha1.EvictionPolicyStatus{},
		}},
		Evidence: evidence,
	}
}

func (j *judge) evict(t testing.TB, member string) eviction.Verdict {
	t.Helper()
	return eviction.Judge(j.input(j.observe(t), member))
}

func (j *judge) replace(t testing.TB, member string) eviction.Verdict {
	t.Helper()
	return eviction.JudgeReplace(j.input(j.observe(t), member))
}

func reasons(v eviction.Verdict) []string {
	var all []string
	for _, b := range v.Blockers {
		all = append(all, b.Reason)
	}
	return all
}

func names(steps []eviction.Preparation) []string {
	var all []string
	for _, s := range steps {
		all = append(all, s.Name)
	}
	return all
}
