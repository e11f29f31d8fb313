package responder

import (
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/lifecycle"
	"usher.sh/usher/internal/snapshot"
)

// wish is who wants a pod gone, and whether it is Usher's turn.
type wish struct {
	wanted      bool
	active      bool
	byAdmission []eviction.AdmissionRequest
	byOthers    bool
}

func about(requests []*api.EvictionRequest, evictions []*api.Eviction, uid types.UID) wish {
	var w wish
	for _, request := range requests {
		ref, ok := lifecycle.RequestRef(request)
		if !ok || ref.UID != uid {
			continue
		}
		w.wanted = true
		asked, admission := lifecycle.AskedAt(request)
		if !admission {
			w.byOthers = true
			continue
		}
		w.byAdmission = append(w.byAdmission, eviction.AdmissionRequest{
			Pod: snapshot.Key{Namespace: ref.Namespace, Name: ref.Name}, UID: uid, Requester: request.Spec.Requester, Asked: asked,
		})
	}
	for _, e := range evictions {
		if ref, ok := lifecycle.EvictionRef(e); ok && ref.UID == uid && lifecycle.Active(e, lifecycle.Responder) {
			w.active = true
		}
	}
	return w
}
