package evictionrequest

import (
	"cmp"
	"slices"
	"strings"

	api "k8s.io/api/lifecycle/v1alpha1"
)

// choose sets the responders of a new eviction and starts the first. The server freezes the list with this write.
func (t Target) choose(s *api.EvictionStatus) {
	s.TargetResponders = t.responders()
	s.Responders = make([]api.ResponderStatus, len(s.TargetResponders))
	for i, r := range s.TargetResponders {
		s.Responders[i].Name = r.Name
	}
	t.activate(s, s.TargetResponders[0].Name)
}

// responders returns those that the pod names, Usher's for a governed pod, and the one that every pod has, in the order
// in which they are asked. A request that admission made comes before Usher's even where the pod is not governed any more:
// its caller was refused, and the last responder would evict it without a verdict. A pod may name so many that Usher's would be one too many; then the last of the pod's own
// goes, because a governed pod must not be left to the others.
func (t Target) responders() []api.TargetResponder {
	own := t.named()
	if (t.governs() || t.refused()) && !slices.ContainsFunc(own, named(Responder)) {
		own = append(own[:min(len(own), maxTargetResponders-2)], responder(Responder, ResponderPriority))
		sortResponders(own)
	}
	own = append(own[:min(len(own), maxTargetResponders-1)], responder(Evictor, EvictorPriority))
	sortResponders(own)
	return own
}

// named returns the responders of the pod's spec, without the default one, in order.
func (t Target) named() []api.TargetResponder {
	var own []api.TargetResponder
	for _, r := range t.Pod.Spec.EvictionResponders {
		if r.Priority != nil && r.Name != Evictor && !slices.ContainsFunc(own, named(r.Name)) {
			own = append(own, responder(r.Name, *r.Priority))
		}
	}
	sortResponders(own)
	return own
}

func (t Target) governs() bool { return t.Governed != nil && t.Governed(t.Pod) }

func named(name string) func(api.TargetResponder) bool {
	return func(r api.TargetResponder) bool { return r.Name == name }
}

func responder(name string, priority int32) api.TargetResponder {
	return api.TargetResponder{Name: name, Priority: &priority, State: api.ResponderStateInactive}
}

// sortResponders puts higher priorities first. Between equal ones the domains decide, compared from the top-level
// label down, and the key last: the order that the server checks states against.
func sortResponders(all []api.TargetResponder) {
	slices.SortStableFunc(all, func(a, b api.TargetResponder) int {
		return cmp.Or(cmp.Compare(priority(b), priority(a)), compareNames(a.Name, b.Name))
	})
}

func priority(r api.TargetResponder) int32 {
	if r.Priority == nil {
		return -1
	}
	return *r.Priority
}

func compareNames(a, b string) int {
	aDomain, aKey, _ := strings.Cut(a, "/")
	bDomain, bKey, _ := strings.Cut(b, "/")
	aLabels, bLabels := strings.Split(aDomain, "."), strings.Split(bDomain, ".")
	slices.Reverse(aLabels)
	slices.Reverse(bLabels)
	return cmp.Or(slices.Compare(aLabels, bLabels), strings.Compare(aKey, bKey))
}
