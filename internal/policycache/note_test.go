package policycache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// The system of a MemberSet's policy is asked about members that join as such, with a pod or without. Another set of the name says nothing of them.
func TestMembersThatJoin(t *testing.T) {
	set := &v1alpha1.MemberSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "db", UID: "set"},
		Status: v1alpha1.MemberSetStatus{Members: []v1alpha1.SetMember{
			{ID: "db-0", State: v1alpha1.MemberWhole}, {ID: "db-1", State: v1alpha1.MemberJoining}, {ID: "db-2", State: v1alpha1.MemberJoining},
		}},
	}
	for owner, want := range map[types.UID]map[string]bool{
		"set":     {"db-0": false, "db-1": true, "db-2": true},
		"another": {"db-0": false, "db-1": false, "db-2": false},
		"":        {"db-0": false, "db-1": false, "db-2": false},
	} {
		policy := newPolicy("db", "db")
		if owner != "" {
			policy.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberSet", Name: "db", UID: owner, Controller: new(true)}}
		}
		s := newSetting(t, policy, set.DeepCopy(), newPod("db-0", "db"), newPod("db-1", "db"), newReplacement("r", "db", "node", "db-2", ""))
		members, err := s.gatherer.Policies.members(t.Context(), policy)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for i := range members {
			got[members[i].ID] = members[i].Joining
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("owner %q (-want +got):\n%s", owner, diff)
		}
	}
}
