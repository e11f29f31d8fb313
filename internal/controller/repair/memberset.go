package repair

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
)

// missingOfSet adds the members that have no pod of the MemberSet that the policy belongs to.
func (r *reconciler) missingOfSet(ctx context.Context, policy *v1alpha1.EvictionPolicy, there map[string]bool, in *replacement.RepairInput) error {
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
	return nil
}
