package repair

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// ofMemberSet is the set that a policy belongs to, and the members that it has, by id.
type ofMemberSet struct {
	*v1alpha1.MemberSet

	members map[string]*v1alpha1.SetMember
}

// setOf reads the MemberSet that a policy belongs to; nil: it belongs to none that is there.
func (r *reconciler) setOf(ctx context.Context, policy *v1alpha1.EvictionPolicy, fresh bool) (*ofMemberSet, error) {
	owner := metav1.GetControllerOfNoCopy(policy)
	if owner == nil || owner.Kind != "MemberSet" {
		return nil, nil
	}
	var reader client.Reader = r.client
	if fresh {
		reader = r.live
	}
	set := &ofMemberSet{MemberSet: &v1alpha1.MemberSet{}, members: map[string]*v1alpha1.SetMember{}}
	err := reader.Get(ctx, client.ObjectKeyFromObject(policy), set.MemberSet)
	switch {
	case apierrors.IsNotFound(err), err == nil && set.UID != owner.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading MemberSet %s: %w", policy.Name, err)
	}
	for i := range set.Status.Members {
		set.members[set.Status.Members[i].ID] = &set.Status.Members[i]
	}
	return set, nil
}

// ofSet adds the members of a set that have no pod, and notes of each what the set says of it, and what there is of what it needs.
func (r *reconciler) ofSet(ctx context.Context, policy *v1alpha1.EvictionPolicy, set *ofMemberSet, there map[string]bool, fresh bool, in *replacement.RepairInput) error {
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
	set.stop(in.Members)
	equipped, err := r.equipped(ctx, set, fresh, in.Now)
	if err != nil {
		return err
	}
	for i := range in.Members {
		seen := &in.Members[i]
		has := equipped[seen.ID]
		seen.Claims, seen.Service = has.claims, has.service
	}
	return nil
}

// stop notes which members the set keeps from starting: those that an annotation of it names, and those whose last pod had one, with which the next is made.
func (set *ofMemberSet) stop(members []replacement.Seen) {
	stops := memberset.StopsOf(set.MemberSet)
	for i := range members {
		seen := &members[i]
		m, had := set.members[seen.ID], "pod "+seen.ID
		switch key := stops.Of(seen.ID); {
		case m == nil:
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

// exclude notes which members their system is to keep nothing on, by what it has said last, nil where that is not known. A set has that done for the members that it
// removes, and taken back before it forgets that it did. What goes once it was emptied has no process any more that the system could say so of.
func (set *ofMemberSet) exclude(kind *system.Kind, said *eviction.Evidence, members []replacement.Seen) {
	if kind.Excluded == nil {
		return
	}
	for i := range members {
		seen := &members[i]
		m := set.members[seen.ID]
		if m == nil {
			continue
		}
		seen.ExclusionWanted = m.Removal != nil
		if leaves(m) {
			seen.Emptied = replacement.Yes
		}
		if said == nil || reported(kind, said.Members[seen.ID]) != replacement.Yes {
			continue
		}
		if excluded, emptied, known := kind.Excluded(said.Members[seen.ID]); known {
			seen.Excluded, seen.Emptied = tristate(excluded), tristate(emptied)
		}
	}
}

// leaves reports whether there is no way back for a member: what it had is on others, and what it has goes.
func leaves(m *v1alpha1.SetMember) bool {
	return m.Removal != nil && (m.Removal.Step == v1alpha1.RemovalRemoving || m.Removal.Step == v1alpha1.RemovalRemoved)
}

func tristate(is bool) replacement.Tristate {
	if is {
		return replacement.Yes
	}
	return replacement.No
}

// maintained notes which members are in a zone that another client has under maintenance, by what their system has said last: of the groups of which it waits for
// what is missing. A set whose system has such zones has its nodes for zones. What the set has begun itself is for those on its list alone.
func (set *ofMemberSet) maintained(kind *system.Kind, said *eviction.Evidence, members []replacement.Seen) {
	if kind.Maintained == nil || kind.Set == nil || kind.Set.Maintains == nil || said == nil {
		return
	}
	zone := kind.Maintained(said.System)
	if own := set.Status.Maintenance; zone == "" || own != nil && own.Zone == zone {
		return
	}
	for i := range members {
		m := set.members[members[i].ID]
		if m == nil || m.Node != zone {
			continue
		}
		at := slices.IndexFunc(set.Spec.Groups, func(g v1alpha1.MemberGroup) bool { return g.Name == m.Group })
		if at >= 0 && kind.Set.Maintains(&set.Spec.Groups[at]) {
			members[i].InZone = zone
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
