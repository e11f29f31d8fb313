package governed

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/testlab"
)

// A budget that allows nothing holds a maintenance no longer than administrators let its namespace; another namespace without a limit holds
// its node on.
func (h *house) maintenanceEndsAHold(t *testing.T) {
	namespace, unlimited := h.lab.Namespace(t), h.lab.Namespace(t)
	nodes, spare := h.lab.Nodes(t, 2), h.lab.Nodes(t, 1)
	for i, where := range []string{namespace, unlimited} {
		h.lab.Deployment(t, where, "web", 1, onlyOn(nodes[i:i+1]))
		h.lab.MaxUnavailable(t, where, "web", "0")
		h.lab.WaitReady(t, where, testlab.Labels("web"), 1)
		h.lab.WaitBudget(t, where, "web", 1)
		h.moveTo(t, where, slices.Concat(nodes, spare))
	}
	limit := &v1alpha1.ClusterEvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "hold-" + namespace},
		Spec: v1alpha1.ClusterEvictionPolicySpec{
			NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
			MaxHold:           metav1.Duration{Duration: time.Minute},
		},
	}
	must(t, h.client.Create(t.Context(), limit))
	t.Cleanup(func() { must(t, h.client.Delete(context.WithoutCancel(t.Context()), limit)) })
	never := func(s *v1alpha1.NodeMaintenanceSpec) { s.Drain.Surge = v1alpha1.SurgeNever }
	h.maintain(t, "unlimited", nodes[1:], never)
	h.maintain(t, "limited", nodes[:1], never)
	h.waitMaintenance(t, "limited", "the hold to be said, with its end", func(m *v1alpha1.NodeMaintenance) bool {
		return m != nil && len(m.Status.Nodes) == 1 && len(m.Status.Nodes[0].Blockers) > 0 &&
			strings.Contains(m.Status.Nodes[0].Blockers[0].Message, "by maxHold 1m of ClusterEvictionPolicy "+limit.Name)
	})
	h.waitMaintenance(t, "limited", "it to be complete", isComplete)
	if pod := h.onNode(t, unlimited, nodes[1]); pod == "" {
		t.Error("a pod of a namespace without a limit has gone")
	}
	events, err := h.lab.Client().EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	found := 0
	for i := range events.Items {
		if e := &events.Items[i]; e.Reason == "HoldExpired" {
			found++
			if !strings.Contains(e.Note, "NodeMaintenance limited") || !strings.Contains(e.Note, limit.Name) || e.Regarding.Kind != "Pod" {
				t.Errorf("the event says %q of %s", e.Note, e.Regarding.Kind)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d events say that the hold has expired", found)
	}
	h.endMaintenance(t, "limited", nodes[:1])
	h.endMaintenance(t, "unlimited", nodes[1:])
}
