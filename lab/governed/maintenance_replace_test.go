package governed

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/testlab"
)

// replacesMembers deletes nodes, and has members with data on them replaced.
func replacesMembers(s *v1alpha1.NodeMaintenanceSpec) {
	s.WhenDrained = v1alpha1.WhenDrained{DeleteNode: &v1alpha1.DeleteNode{Members: v1alpha1.MembersReplace}}
}

// maintenanceLacksRightsToReplace: the Node stays until it is known whose data is on it, and the maintenance says which right is missing.
func (h *house) maintenanceLacksRightsToReplace(t *testing.T) {
	nodes := h.lab.Nodes(t, 1)
	h.maintain(t, "norights", nodes, replacesMembers)
	h.waitMaintenance(t, "norights", "the missing right to be named", func(m *v1alpha1.NodeMaintenance) bool {
		if m == nil || len(m.Status.Nodes) != 1 || len(m.Status.Nodes[0].Blockers) == 0 {
			return false
		}
		b := m.Status.Nodes[0].Blockers[0]
		return b.Reason == "MembersNotReplaced" && strings.Contains(b.Message, `cannot list resource "persistentvolumes"`) && strings.Contains(b.Remedy, "usher install --replacement")
	})
	h.endMaintenance(t, "norights", nodes)
}

// replacementIsMadeByMaintenance: a maintenance deletes the node that a member's local volume is on. The member is made anew elsewhere, and its
// former volume is kept.
func (h *house) replacementIsMadeByMaintenance(t *testing.T) {
	l := h.local(t, "db")
	h.governReplicas(t, l.ns, "db", func(s *v1alpha1.EvictionPolicySpec) { s.Members[0].Controllers = []string{simulated} })
	leaves := l.pods[2]
	old := h.volumeOf(t, l.ns, leaves.Name)
	h.maintain(t, "replaces", []string{leaves.Spec.NodeName}, replacesMembers)
	h.waitMaintenance(t, "replaces", "it to be complete", isComplete)
	if _, err := h.lab.Client().CoreV1().Nodes().Get(t.Context(), leaves.Spec.NodeName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("node %s: %v", leaves.Spec.NodeName, err)
	}
	must(t, h.client.Delete(t.Context(), &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "replaces"}})) // the request outlives it
	q := h.waitRepair(t, l.ns, "the member to be replaced", isReplaced)
	if q.Spec.Requester != "test.usher.sh/replaces" || q.Spec.Member.ID != leaves.Name || len(q.OwnerReferences) != 1 {
		t.Errorf("the request is %+v of %+v", q.Spec, q.OwnerReferences)
	}
	now := h.lab.WaitReady(t, l.ns, testlab.Labels("db"), 3)
	at := slices.IndexFunc(now, func(p *corev1.Pod) bool { return p.Name == leaves.Name })
	if now[at].Spec.NodeName != l.spare {
		t.Errorf("the successor is on %s, want %s", now[at].Spec.NodeName, l.spare)
	}
	h.isKept(t, old)
}
