package repair

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
)

// ofSet adds the members that have no pod of the MemberSet that the policy belongs to, and notes which members it makes anew under maintenance.
func (r *reconciler) ofSet(ctx context.Context, policy *v1alpha1.EvictionPolicy, there map[string]bool, in *replacement.RepairInput) error {
	owner := metav1.GetControllerOfNoCopy(policy)
	if owner == nil || owner.Kind != "MemberSet" {
		return nil
	}
	var set v1alpha1.MemberSet
	err := r.client.Get(ctx, client.ObjectKeyFromObject(policy), &set)
	switch {
	case apierrors.IsNotFound(err), err == nil && set.UID != owner.UID:
		return nil
	case err != nil:
		return fmt.Errorf("reading MemberSet %s: %w", policy.Name, err)
	}
	compiled := r.Gatherer.Policies.Compiled(policy)
	for i := range set.Status.Members {
		m := &set.Status.Members[i]
		if there[m.ID] {
			continue
		}
		made := &snapshot.Pod{Namespace: set.Namespace, Name: m.ID, Labels: map[string]string{
			v1alpha1.MemberSetLabel: set.Name, v1alpha1.MemberGroupLabel: m.Group, v1alpha1.MemberIDLabel: m.ID,
		}}
		if seen, is := seenOf(policy, compiled, made); is {
			in.Members = append(in.Members, seen)
		}
	}
	note(set.Status.Maintenance, in.Members)
	return nil
}

func note(maintenance *v1alpha1.ZoneMaintenance, members []replacement.Seen) {
	if maintenance == nil {
		return
	}
	for i := range members {
		if slices.ContainsFunc(maintenance.Members, func(m v1alpha1.MaintainedMember) bool { return m.ID == members[i].ID }) {
			members[i].Maintained = maintenance.Zone
		}
	}
}
