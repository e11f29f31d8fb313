package webhook

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// replacementHandler checks ReplacementRequests when they are created: who creates one has the manager delete a pod and its claims, so it
// takes the right to delete these oneself.
type replacementHandler struct{ Options }

// Handle answers one request.
func (h *replacementHandler) Handle(ctx context.Context, request admission.Request) admission.Response {
	if refused := h.review(ctx, &request, replacementRights(request.Namespace), "this ReplacementRequest"); refused != nil {
		return *refused
	}
	return admission.Allowed("")
}

// replacementRights are what who has members replaced needs oneself.
func replacementRights(namespace string) []authorizationv1.ResourceAttributes {
	var rights []authorizationv1.ResourceAttributes
	for _, resource := range []string{"pods", "persistentvolumeclaims"} {
		rights = append(rights, authorizationv1.ResourceAttributes{Verb: "delete", Version: "v1", Resource: resource, Namespace: namespace})
	}
	return rights
}
