package evictionrequest

import (
	"slices"

	api "k8s.io/api/lifecycle/v1alpha1"
)

// requesters merges who asks now with who asked before. One whose requests are gone has withdrawn; the record of it
// stays until there is no room, and those that withdrew make room first.
func (t Target) requesters(known []api.Requester) []api.Requester {
	intents := t.intents()
	merged := make([]api.Requester, 0, len(known)+len(intents))
	listed := map[string]bool{}
	for _, r := range known {
		merged, listed[r.Name] = append(merged, api.Requester{Name: r.Name, Intent: intentOf(intents[r.Name])}), true
	}
	for _, r := range t.requests() {
		if name := r.Spec.Requester; !listed[name] {
			merged, listed[name] = append(merged, api.Requester{Name: name, Intent: intentOf(intents[name])}), true
		}
	}
	return makeRoom(merged)
}

// intents says of every requester that has a request whether one of them stands.
func (t Target) intents() map[string]bool {
	stands := map[string]bool{}
	for _, r := range t.mine() {
		stands[r.Spec.Requester] = stands[r.Spec.Requester] || Stands(r)
	}
	return stands
}

func intentOf(stands bool) api.RequesterIntent {
	if stands {
		return api.RequesterIntentEviction
	}
	return api.RequesterIntentWithdrawn
}

func makeRoom(all []api.Requester) []api.Requester {
	surplus := len(all) - maxRequesters
	if surplus > 0 {
		all = slices.DeleteFunc(all, func(r api.Requester) bool {
			drop := surplus > 0 && r.Intent == api.RequesterIntentWithdrawn
			if drop {
				surplus--
			}
			return drop
		})
	}
	return all[:min(len(all), maxRequesters)]
}
