package histories

import (
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

// TestRenewed checks what of a policy's status may be written without an event: who may leave, by evidence of another time, and nothing else.
func TestRenewed(t *testing.T) {
	policy := &v1alpha1.EvictionPolicy{Status: v1alpha1.EvictionPolicyStatus{
		MemberCount: 2, Roles: []v1alpha1.RoleStatus{{Role: "etcd-member", MemberCount: 2}}, Blocked: []v1alpha1.BlockedMember{{}},
	}}
	const (
		counted = `{"status": {"memberCount": 2, "roles": [{"role": "etcd-member", "memberCount": 2, "evictableCount": 1}]}}`
		more    = `{"status": {"memberCount": 3, "roles": [{"role": "etcd-member", "memberCount": 2, "evictableCount": 1}]}}`
		byRV    = `{"metadata": {"resourceVersion": "1"}, "status": {"memberCount": 2, "roles": [{"role": "etcd-member", "memberCount": 2}]}}`
	)
	then := &eviction.Evidence{Summary: "2 of 2", Observed: time.Unix(100, 0)}
	later := &eviction.Evidence{Summary: "2 of 2", Observed: time.Unix(101, 0)}
	other := &eviction.Evidence{Summary: "1 of 2", Observed: time.Unix(101, 0)}
	cases := []struct {
		name          string
		patch         string
		before, after *eviction.Evidence
		want          bool
	}{
		{"newer evidence", counted, then, later, true},
		{"the same evidence", counted, then, then, false},
		{"the system says something else", counted, then, other, false},
		{"it was reconciled without evidence", counted, nil, later, false},
		{"a member more", more, then, later, false},
		{"what lets evictions through", byRV, then, later, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := renewed(policy, []byte(c.patch), c.before, c.after); got != c.want {
				t.Errorf("renewed: %v, want %v", got, c.want)
			}
		})
	}
}
