package governed

import (
	"testing"

	"usher.sh/usher/lab/testlab"
)

// A maintenance surges a single replica where the manager has both the rights to drain and those to scale plain workloads: what limits its
// account to each of them lets the writes of the other through. A policy has the replica surged by its system, none by the drain.
func (h *house) maintenanceSurgesBesideWorkloads(t *testing.T) {
	h.install(t, "--maintenance", "--workloads")
	for name, governed := range map[string]bool{"bydrain": false, "bysystem": true} {
		t.Run(name, func(t *testing.T) {
			namespace := h.lab.Namespace(t)
			node := h.lone(t, namespace, 2)
			if governed {
				h.plain(t, namespace, 1)
			}
			least := h.leastReady(t, namespace)
			h.maintain(t, name, []string{node})
			h.waitMaintenance(t, name, "it to be complete", isComplete)
			h.waitReplicas(t, namespace, 1)
			pods := h.lab.WaitReady(t, namespace, testlab.Labels("web"), 1)
			if pods[0].Spec.NodeName == node {
				t.Errorf("the replica is still on node %s", node)
			}
			if n := least(); n != 1 {
				t.Errorf("at the lowest %d pods were ready, want 1", n)
			}
			h.endMaintenance(t, name, []string{node})
		})
	}
}
