package memberset

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
)

// The system is asked about members that were removed as well, until it has forgotten them, and knows that they were.
func TestMembersOf(t *testing.T) {
	set := &v1alpha1.MemberSet{Spec: v1alpha1.MemberSetSpec{Groups: []v1alpha1.MemberGroup{{Name: "storage", Role: "foundationdb-storage"}}}}
	for id, step := range map[string]v1alpha1.MemberRemovalStep{"removing": v1alpha1.RemovalRemoving, "removed": v1alpha1.RemovalRemoved} {
		set.Status.Members = []v1alpha1.SetMember{{ID: id, Group: "storage", Removal: &v1alpha1.MemberRemoval{Step: step}}}
		want := []system.Member{{MemberRef: v1alpha1.MemberRef{Role: "foundationdb-storage", ID: id}, Removed: id == "removed"}}
		if diff := cmp.Diff(want, membersOf(set, nil)); diff != "" {
			t.Error(diff)
		}
	}
}
