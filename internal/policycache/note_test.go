package policycache

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
)

// The system of a MemberSet's policy is asked about its members as what the set says that they are, with a pod or without. Another set of the name says nothing of them.
func TestWhatASetSaysOfItsMembers(t *testing.T) {
	removal := func(step v1alpha1.MemberRemovalStep) *v1alpha1.MemberRemoval {
		return &v1alpha1.MemberRemoval{Step: step}
	}
	set := &v1alpha1.MemberSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "db", UID: "set"},
		Status: v1alpha1.MemberSetStatus{
			Members: []v1alpha1.SetMember{
				{ID: "whole", State: v1alpha1.MemberWhole, Shape: v1alpha1.MemberShape{MembersPerPod: 2}},
				{ID: "joining", State: v1alpha1.MemberJoining},
				{ID: "joining-2", State: v1alpha1.MemberJoining},
				{ID: "marked", State: v1alpha1.MemberWhole, Removal: removal(v1alpha1.RemovalGrowing)},
				{ID: "emptying", State: v1alpha1.MemberWhole, Removal: removal(v1alpha1.RemovalEmptying)},
				{ID: "gone", State: v1alpha1.MemberWhole, Removal: removal(v1alpha1.RemovalRemoved)},
				{ID: "refilling", State: v1alpha1.MemberWhole, Removal: removal(v1alpha1.RemovalRefilling)},
				{ID: "maintained", State: v1alpha1.MemberWhole},
				{ID: "remade", State: v1alpha1.MemberWhole},
			},
			Maintenance: &v1alpha1.ZoneMaintenance{Members: []v1alpha1.MaintainedMember{{ID: "maintained", PodUID: "maintained"}, {ID: "remade", PodUID: "before"}}},
		},
	}
	for owner, want := range map[types.UID]map[string]string{
		"set":     {"joining": "joins", "joining-2": "joins, leaves", "marked": "leaves", "emptying": "leaves, emptied", "gone": "removed, leaves, emptied", "refilling": "emptied", "maintained": "leaves", "requested": "leaves"},
		"another": {"joining-2": "leaves", "requested": "leaves"},
		"":        {"joining-2": "leaves", "requested": "leaves"},
	} {
		policy := newPolicy("db", "db")
		if owner != "" {
			policy.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberSet", Name: "db", UID: owner, Controller: new(true)}}
		}
		s := newSetting(t, policy, set.DeepCopy(), newPod("whole", "db"), newPod("joining", "db"), newPod("marked", "db"), newPod("emptying", "db"), newPod("gone", "db"), newPod("refilling", "db"),
			newPod("maintained", "db"), newPod("remade", "db"), newPod("requested", "db"), newReplacement("r", "db", "node", "joining-2", ""), newReplacement("s", "db", "node", "requested", ""))
		members, err := s.gatherer.Policies.members(t.Context(), policy)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for i := range members {
			m := &members[i]
			var all []string
			for _, fact := range []struct {
				is   bool
				said string
			}{{m.Joining, "joins"}, {m.Removed, "removed"}, {m.Leaves, "leaves"}, {m.Emptied, "emptied"}} {
				if fact.is {
					all = append(all, fact.said)
				}
			}
			said := strings.Join(all, ", ")
			if said != "" {
				got[m.ID] = said
			}
		}
		two := slices.ContainsFunc(members, func(m system.Member) bool { return m.ID == "whole" && m.Processes == 2 })
		if two != (owner == "set") {
			t.Errorf("owner %q: it is known of a member that it is to have two processes: %t", owner, two)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(members) != 10 {
			t.Errorf("owner %q: %d members (-want +got):\n%s", owner, len(members), diff)
		}
	}
}
