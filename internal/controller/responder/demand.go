package responder

import (
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/policycache"
)

// demand is who wants a pod gone, and whether it is Usher's turn.
type demand struct {
	wanted   bool
	active   bool
	admitted []*api.EvictionRequest // made by admission
	byOthers bool
}

func demandFor(requests []*api.EvictionRequest, evictions []*api.Eviction, uid types.UID) demand {
	var w demand
	for _, request := range requests {
		ref, ok := evictionrequest.RequestRef(request)
		if !ok || ref.UID != uid {
			continue
		}
		w.wanted = true
		if _, made := evictionrequest.LastRequestTime(request); made {
			w.admitted = append(w.admitted, request)
		} else {
			w.byOthers = true
		}
	}
	for _, e := range evictions {
		if ref, ok := evictionrequest.EvictionRef(e); ok && ref.UID == uid && evictionrequest.Active(e, evictionrequest.Responder) {
			w.active = true
		}
	}
	return w
}

// input is what is to be decided about.
func (w *demand) input(facts eviction.Input) eviction.ResponderInput {
	in := eviction.ResponderInput{Input: facts, Wanted: w.wanted, Active: w.active, OnlyAdmission: len(w.admitted) > 0 && !w.byOthers}
	for _, request := range w.admitted {
		if made, ok := policycache.AdmissionRequest(request, facts.Node); ok {
			in.Requests = append(in.Requests, made)
		}
	}
	return in
}
