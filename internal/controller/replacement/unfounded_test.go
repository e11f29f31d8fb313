package replacement

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/replacement"
)

// A request of repair for a member that is well by now ends, gives its permit back and is let go; one for a member of a MemberSet is a mark, which stays.
func TestRequestsOfRepairEnd(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*member)
		ends   bool
	}{
		"its member is well": {func(*member) {}, true},
		"its member is unhealthy": {func(m *member) {
			m.policy.Status.Unhealthy = []v1alpha1.UnhealthyMember{{Role: "store", ID: "db-0", Conditions: []v1alpha1.MemberCondition{{
				Type: "PodPending", StartTime: metav1.NewTime(noon.Add(-3 * time.Hour)),
			}}}}
		}, false},
		"a person has made it": {func(m *member) { m.request.Spec.Requester = "person.usher.sh/anna" }, false},
		"its policy is one of a MemberSet": {func(m *member) {
			m.policy.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberSet", Name: "db", UID: "s", Controller: new(true)}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, func(m *member) {
				m.policy.Spec.Repair = &v1alpha1.Repair{Mode: v1alpha1.RepairAutomatic}
				m.request.Spec.Requester, m.request.CreationTimestamp = replacement.RepairRequester, metav1.NewTime(noon.Add(-time.Hour))
				m.request.Status.Step, m.request.Status.Predecessor = v1alpha1.ReplacementWaiting, nil
				c.change(m)
			})
			for range 3 {
				if _, err := m.r.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m.request)}); err != nil {
					t.Fatal(err)
				}
			}
			request, policy := &v1alpha1.ReplacementRequest{}, &v1alpha1.EvictionPolicy{}
			if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.request), request); err != nil {
				t.Fatal(err)
			}
			if err := m.store.Get(t.Context(), client.ObjectKeyFromObject(m.policy), policy); err != nil {
				t.Fatal(err)
			}
			ended := request.Status.Step == v1alpha1.ReplacementCancelled && !isHeld(request) && len(policy.Status.Replacing) == 0
			if ended != c.ends || !ended && request.Status.Step == v1alpha1.ReplacementCancelled || !m.has(t, m.claim) && c.ends {
				t.Errorf("%s, held: %t, %+v, permits %v", request.Status.Step, isHeld(request), request.Status.Blockers, policy.Status.Replacing)
			}
		})
	}
}
