package evictionrequest

import (
	"slices"

	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MetadataPlan is what an eviction's labels and owners must be.
type MetadataPlan struct {
	Labels  map[string]string       // by participant; labels of others are not in it
	Owners  []metav1.OwnerReference // all that it has or must have
	Changed bool
}

// PlanMetadata makes an eviction findable by its participants, and owned by its requests. Owners are only added: the
// garbage collector removes the eviction when the last of them is gone. As many requests own it as requesters have room in
// its status, since any number of them fits into no object: where all of these are gone and others stand, the next eviction
// is made for those. Of the target only the requests need be known.
//
// Labels and owners stay as they are while an eviction that no request stands for ends, and for good once its pod has been
// evicted. One that ended in another way gets no owner and no requester any more, since a request that is withdrawn and made
// again would otherwise be written into each eviction that ever was; requesters that withdraw lose their label.
func PlanMetadata(t Target, e *api.Eviction) MetadataPlan {
	if Evicted(e.Status.Conditions) || !Final(e) && !t.wanted() {
		return MetadataPlan{}
	}
	plan := MetadataPlan{Labels: t.roles(e), Owners: slices.Clone(e.OwnerReferences)}
	if !Final(e) {
		plan.Owners = t.owners(plan.Owners)
	}
	plan.Changed = len(plan.Owners) > len(e.OwnerReferences) || rolesDiffer(e.Labels, plan.Labels)
	return plan
}

func (t Target) owners(all []metav1.OwnerReference) []metav1.OwnerReference {
	listed := map[types.UID]bool{}
	for i := range all {
		listed[all[i].UID] = true
	}
	for _, r := range t.requests() {
		if len(all) < maxRequesters && Stands(r) && !listed[r.UID] {
			all = append(all, t.owner(r))
		}
	}
	return all
}

// roles names the requesters that the status has room for, and the responders: until they are chosen, those that it was made with.
func (t Target) roles(e *api.Eviction) map[string]string {
	roles := map[string]string{}
	for _, r := range e.Status.TargetResponders {
		roles[r.Name] = string(api.EvictionParticipantRoleResponder)
	}
	if len(e.Status.TargetResponders) == 0 {
		for name, role := range e.Labels {
			if isRole(role) && role != string(api.EvictionParticipantRoleRequester) {
				roles[name] = string(api.EvictionParticipantRoleResponder)
			}
		}
	}
	for _, r := range t.requesters(e.Status.Requesters) {
		stands := r.Intent == api.RequesterIntentEviction
		switch {
		case stands && Final(e) && !requests(e.Labels[r.Name]):
		case stands && roles[r.Name] != "":
			roles[r.Name] = string(api.EvictionParticipantRoleRequesterResponder)
		case stands:
			roles[r.Name] = string(api.EvictionParticipantRoleRequester)
		}
	}
	return roles
}

// rolesDiffer also sees a role that a participant no longer has.
func rolesDiffer(labels, roles map[string]string) bool {
	for name, role := range roles {
		if labels[name] != role {
			return true
		}
	}
	for name, value := range labels {
		if roles[name] == "" && isRole(value) {
			return true
		}
	}
	return false
}

// requests reports whether a role is a requester's.
func requests(role string) bool {
	return isRole(role) && api.EvictionParticipantRole(role) != api.EvictionParticipantRoleResponder
}

func isRole(value string) bool {
	switch api.EvictionParticipantRole(value) {
	case api.EvictionParticipantRoleRequester, api.EvictionParticipantRoleResponder, api.EvictionParticipantRoleRequesterResponder:
		return true
	}
	return false
}
