package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/observe"
)

// maintenanceHandler checks NodeMaintenances when they are written: who writes one has the manager evict the pods on its nodes, so it
// takes the right to delete these oneself (KEP-4212).
type maintenanceHandler struct{ Options }

// Handle answers one request.
func (h *maintenanceHandler) Handle(ctx context.Context, request admission.Request) admission.Response {
	var m v1alpha1.NodeMaintenance
	if err := json.Unmarshal(request.Object.Raw, &m); err != nil {
		return refuseBad(fmt.Errorf("reading the maintenance: %w", err))
	}
	if refused := h.review(ctx, &request, rightsFor(&m), "this NodeMaintenance"); refused != nil {
		return *refused
	}
	return admission.Allowed("").WithWarnings(h.maintenanceWarnings(ctx, &request, &m)...)
}

// rightsFor are the rights that a maintenance's writer has to have. Pods may be on its nodes from any namespace.
func rightsFor(m *v1alpha1.NodeMaintenance) []authorizationv1.ResourceAttributes {
	rights := []authorizationv1.ResourceAttributes{{Verb: "delete", Version: "v1", Resource: "pods"}}
	if !maintenance.Drains(m) {
		rights = append(rights, authorizationv1.ResourceAttributes{Verb: "patch", Version: "v1", Resource: "nodes"})
	}
	when := m.Spec.WhenDrained.DeleteNode
	if when != nil {
		rights = append(rights, authorizationv1.ResourceAttributes{Verb: "delete", Version: "v1", Resource: "nodes"})
	}
	if when != nil && when.Members == v1alpha1.MembersReplace {
		rights = append(rights, authorizationv1.ResourceAttributes{Verb: "delete", Version: "v1", Resource: "persistentvolumeclaims"})
	}
	return rights
}

// maintenanceWarnings say what is allowed and may not be meant.
func (h *maintenanceHandler) maintenanceWarnings(ctx context.Context, request *admission.Request, m *v1alpha1.NodeMaintenance) []string {
	if request.Operation != admissionv1.Create {
		return nil
	}
	var nodes corev1.NodeList
	if err := h.Reader.List(ctx, &nodes); err != nil {
		return []string{fmt.Sprintf("which nodes there are could not be read: %v", err)}
	}
	facts := make([]*maintenance.Node, 0, len(nodes.Items))
	for i := range nodes.Items {
		facts = append(facts, &maintenance.Node{Node: observe.NodeFacts(&nodes.Items[i])})
	}
	var others v1alpha1.NodeMaintenanceList
	if err := h.Reader.List(ctx, &others); err != nil {
		return []string{fmt.Sprintf("which maintenances there are could not be read: %v", err)}
	}
	return maintenance.Warnings(m, facts, others.Items, h.Now())
}
