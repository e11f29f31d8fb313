package cli

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/text"
)

// mostIDs is how many members of a set are named.
const mostIDs = 8

// sets are the MemberSets of the namespace, of which members have no pod. Where they cannot be read there are none.
func (o *replaceOptions) sets(ctx context.Context, objects dynamic.Interface) []*v1alpha1.MemberSet {
	sets, err := observe.MemberSets{Objects: objects, Namespace: o.namespace}.List(ctx)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(sets, func(s *v1alpha1.MemberSet) bool { return o.policy != "" && s.Name != o.policy })
}

// ofSets returns the members of sets that have the id, which say themselves which members they have: a request for another would stand for nothing.
func (o *replaceOptions) ofSets(sets []*v1alpha1.MemberSet) ([]memberClaim, error) {
	var found []memberClaim
	for _, set := range sets {
		at := slices.IndexFunc(set.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == o.member })
		switch {
		case at < 0:
			continue
		case set.Status.Formed == nil:
			return nil, unformed(set, o.member+" is not replaced before")
		}
		for i := range set.Spec.Groups {
			if g := &set.Spec.Groups[i]; g.Name == set.Status.Members[at].Group && (o.role == "" || o.role == g.Role) {
				found = append(found, memberClaim{member: v1alpha1.ReplacementMember{Role: g.Role, ID: o.member}, policy: set.Name, operated: true})
			}
		}
	}
	if len(found) > 0 || o.policy == "" || len(sets) == 0 {
		return found, nil
	}
	set := sets[0]
	var ids []string
	for i := range set.Status.Members {
		ids = append(ids, set.Status.Members[i].ID)
	}
	switch {
	case set.Status.Formed == nil:
		return nil, unformed(set, "no member is replaced before")
	case slices.Contains(ids, o.member):
		return nil, fmt.Errorf("member %s of MemberSet %s is not of role %s: leave --role out", o.member, set.Name, o.role)
	}
	return nil, fmt.Errorf("MemberSet %s has no member %q, so that there is nothing to replace; it has %s", set.Name, o.member, text.List(ids, mostIDs))
}

// unformed is about a set without a system, which has no policy yet, and what it waits for.
func unformed(set *v1alpha1.MemberSet, so string) error {
	waits := "it does not say what for; see whether usher's manager runs: kubectl get pods -A -l app.kubernetes.io/name=usher"
	if len(set.Status.Blockers) > 0 {
		b := &set.Status.Blockers[0]
		waits = fmt.Sprintf("%s: %s (%s)", b.Reason, text.Line(b.Message), text.Line(b.Remedy))
	}
	return fmt.Errorf("MemberSet %s has not formed its system yet, and %s; it waits: %s; all that it waits for: kubectl describe memberset %s -n %s", set.Name, so, waits, set.Name, set.Namespace)
}
