package repair

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
)

// ofSet adds the members that have no pod of the MemberSet that the policy belongs to, and notes of each what the set says of it.
func (r *reconciler) ofSet(ctx context.Context, policy *v1alpha1.EvictionPolicy, there map[string]bool, fresh bool, in *replacement.RepairInput) error {
	owner := metav1.GetControllerOfNoCopy(policy)
	if owner == nil || owner.Kind != "MemberSet" {
		return nil
	}
	var reader client.Reader = r.client
	if fresh {
		reader = r.live
	}
	var set v1alpha1.MemberSet
	err := reader.Get(ctx, client.ObjectKeyFromObject(policy), &set)
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
	stop(&set, in.Members)
	return nil
}

// stop notes which members the set keeps from starting: those that an annotation of it names, and those whose last pod had one, with which the next is made.
func stop(set *v1alpha1.MemberSet, members []replacement.Seen) {
	stops := memberset.StopsOf(set)
	for i := range members {
		seen := &members[i]
		at := slices.IndexFunc(set.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == seen.ID })
		if at < 0 {
			continue
		}
		m, had := &set.Status.Members[at], "pod "+seen.ID
		switch key := stops.Of(seen.ID); {
		case key != "":
			seen.Stopped = replacement.Stopped{Annotation: key, On: "MemberSet " + set.Name}
		case seen.Pod != nil:
		case len(m.CrashLoop) > 0:
			seen.Stopped = replacement.Stopped{Annotation: v1alpha1.CrashLoopPrefix + m.CrashLoop[0], On: had}
		case m.EmptyConfiguration:
			seen.Stopped = replacement.Stopped{Annotation: v1alpha1.EmptyConfigurationAnnotation, On: had}
		}
	}
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
