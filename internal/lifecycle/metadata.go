package lifecycle

import (
	"slices"

	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MetadataPlan is what an eviction's labels and owners must be.
type MetadataPlan struct {
	Labels  map[string]string       // by participant; labels of others are not in it
	Owners  []metav1.OwnerReference // all that it has or must have
	Changed bool
}

// PlanMetadata makes an eviction findable by its participants, and owned by its requests. Owners are only added: the
// garbage collector removes the eviction when the last of them is gone. Who asks after its end takes no part in it: a
// request that is taken back and made again would otherwise be written into each eviction that ever was.
func PlanMetadata(t Target, e *api.Eviction) MetadataPlan {
	plan := MetadataPlan{Labels: t.roles(e), Owners: slices.Clone(e.OwnerReferences)}
	for _, r := range t.requests() {
		if wants(r) && !Final(e) && !slices.ContainsFunc(plan.Owners, func(o metav1.OwnerReference) bool { return o.UID == r.UID }) {
			plan.Owners = append(plan.Owners, t.owner(r))
			plan.Changed = true
		}
	}
	plan.Changed = plan.Changed || rolesDiffer(e.Labels, plan.Labels)
	return plan
}

func (t Target) roles(e *api.Eviction) map[string]string {
	roles := map[string]string{}
	for _, r := range e.Status.TargetResponders {
		roles[r.Name] = string(api.EvictionParticipantRoleResponder)
	}
	for name, stands := range t.intents() {
		switch {
		case stands && Final(e) && !asks(e.Labels[name]):
		case stands && roles[name] != "":
			roles[name] = string(api.EvictionParticipantRoleRequesterResponder)
		case stands:
			roles[name] = string(api.EvictionParticipantRoleRequester)
		}
	}
	return roles
}

// rolesDiffer also sees a role that somebody no longer has.
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

// asks says whether a role is a requester's.
func asks(value string) bool {
	return isRole(value) && api.EvictionParticipantRole(value) != api.EvictionParticipantRoleResponder
}

func isRole(value string) bool {
	switch api.EvictionParticipantRole(value) {
	case api.EvictionParticipantRoleRequester, api.EvictionParticipantRoleResponder, api.EvictionParticipantRoleRequesterResponder:
		return true
	}
	return false
}
