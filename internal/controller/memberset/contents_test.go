package memberset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
)

// The system is asked about members that were removed as well, until it has forgotten them, and knows that they were; and which have not done their work yet.
func TestMembersOf(t *testing.T) {
	set := &v1alpha1.MemberSet{Spec: v1alpha1.MemberSetSpec{Groups: []v1alpha1.MemberGroup{{Name: "storage", Role: "foundationdb-storage"}}}}
	for id, m := range map[string]v1alpha1.SetMember{
		"removing": {State: v1alpha1.MemberWhole, Removal: &v1alpha1.MemberRemoval{Step: v1alpha1.RemovalRemoving}},
		"removed":  {State: v1alpha1.MemberWhole, Removal: &v1alpha1.MemberRemoval{Step: v1alpha1.RemovalRemoved}},
		"joining":  {State: v1alpha1.MemberJoining},
	} {
		m.ID, m.Group = id, "storage"
		set.Status.Members = []v1alpha1.SetMember{m}
		goes := strings.HasPrefix(id, "remov")
		want := []system.Member{{MemberRef: v1alpha1.MemberRef{Role: "foundationdb-storage", ID: id}, Removed: id == "removed", Joining: id == "joining", Leaves: goes, Emptied: goes}}
		if diff := cmp.Diff(want, membersOf(set, nil)); diff != "" {
			t.Error(diff)
		}
	}
}
