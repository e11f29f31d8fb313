package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"usher.sh/usher/api/v1alpha1"
)

// replacementHandler checks ReplacementRequests when they are written: who creates one, or gives data up in one, has the manager delete a pod and its
// claims, so it takes the right to delete these oneself.
type replacementHandler struct{ Options }

// Handle answers one request.
func (h *replacementHandler) Handle(ctx context.Context, request admission.Request) admission.Response {
	given, err := abandonmentOf(request.Object.Raw)
	if err != nil {
		return refuseBad(err)
	}
	before, err := abandonmentOf(request.OldObject.Raw)
	if err != nil {
		return refuseBad(err)
	}
	if given != nil && before == nil {
		if why := h.notTheirWord(given, request.UserInfo.Username); why != "" {
			return admission.Denied(why)
		}
	}
	if refused := h.review(ctx, &request, replacementRights(request.Namespace), "this ReplacementRequest"); refused != nil {
		return *refused
	}
	return admission.Allowed("")
}

// abandonmentOf reads what a request gives up; nil: nothing. The object is empty where there was none.
func abandonmentOf(object []byte) (*v1alpha1.ReplacementAbandonment, error) {
	if len(object) == 0 {
		return nil, nil
	}
	var request v1alpha1.ReplacementRequest
	if err := json.Unmarshal(object, &request); err != nil {
		return nil, fmt.Errorf("reading the ReplacementRequest: %w", err)
	}
	return request.Spec.Abandonment, nil
}

// notTheirWord says why an abandonment is not the word of the user who writes it; "": it is. Usher's own processes give nothing up.
func (h *replacementHandler) notTheirWord(given *v1alpha1.ReplacementAbandonment, user string) string {
	switch {
	case slices.Contains(h.Self, user):
		return fmt.Sprintf("%s gives up no data: spec.abandonment is a person's word", user)
	case given.Requester != user:
		return "spec.abandonment.requester must be the user who gives the data up: " + user
	}
	return ""
}

// replacementRights are what who has members replaced needs oneself.
func replacementRights(namespace string) []authorizationv1.ResourceAttributes {
	var rights []authorizationv1.ResourceAttributes
	for _, resource := range []string{"pods", "persistentvolumeclaims"} {
		rights = append(rights, authorizationv1.ResourceAttributes{Verb: "delete", Version: "v1", Resource: resource, Namespace: namespace})
	}
	return rights
}
