package snapshot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"usher.sh/usher/api/v1alpha1"
)

func TestNamesOfNodeLocks(t *testing.T) {
	policy := Key{Namespace: "stack", Name: "neutron"}
	names := map[string]string{}
	for _, role := range []string{"l3", "nova-compute", strings.Repeat("a", 63), strings.Repeat("a", 62) + "b", strings.Repeat("a-", 31) + "a"} {
		name := NodeLockName(policy, role)
		if problems := validation.IsQualifiedName("lock.example.com/" + name); problems != nil || names[name] != "" {
			t.Errorf("%s of %s (%s): %v", name, role, names[name], problems)
		}
		names[name] = role
		if LockOwner("lock.example.com/"+name) != NodeLockOwner(policy) {
			t.Errorf("%s is not recognized", name)
		}
	}
	if NodeLockOwner(policy) == NodeLockOwner(Key{Namespace: "stack", Name: "nova"}) {
		t.Error("two policies have the same locks")
	}
	for _, foreign := range []string{"lock.example.com/nova-compute", "lock.example.com/usher.x", "lock.example.com/usher..0123456789", "usher.l3.0123456789", "a/usher.l3.012345678z", "a/usher.l3.01234567890", ""} {
		if got := LockOwner(foreign); got != "" {
			t.Errorf("%q is a lock of %s", foreign, got)
		}
	}
}

func TestTheWaiterLeavesAfterTheHolders(t *testing.T) {
	spec := &v1alpha1.EvictionPolicySpec{
		Members:  []v1alpha1.MemberSelector{{Role: "l3"}, {Role: "l2", LeavesAfter: []string{"dhcp", "l3"}}, {Role: "nova"}, {Role: "dhcp"}},
		NodeLock: &v1alpha1.NodeLock{Holders: []string{"l3", "nova"}, Waiter: "l2"},
	}
	var got [][]string
	for i := range spec.Members {
		got = append(got, RolesBefore(spec, i))
	}
	if diff := cmp.Diff([][]string{nil, {"dhcp", "l3", "nova"}, nil, nil}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"dhcp", "l3"}, spec.Members[1].LeavesAfter); diff != "" {
		t.Errorf("the policy was changed: %s", diff)
	}
}
