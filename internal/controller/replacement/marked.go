package replacement

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
)

// ofSet reports whether a MemberSet replaces the member, by its policy or, where that is gone, by what the set says, and reads what a step rests on then. The policy of a
// set has the roles that its groups have today, and a member of another one is removed all the same where that was begun.
func (r *reconciler) ofSet(ctx context.Context, l *look) (is bool, err error) {
	provider := l.provider()
	switch {
	case provider != nil && provider.MemberSet != nil:
		return true, r.marked(ctx, l)
	case provider == nil && runBySet(l.policy):
		l.lacks(replacement.NoMember(l.in.Member.Role, l.in.Member.ID, l.policy.Name))
		return true, r.marked(ctx, l)
	case l.policy != nil:
		return false, nil
	}
	set, err := r.marking(ctx, l)
	if set == nil || err != nil {
		return false, err
	}
	return true, r.markedBy(ctx, l, set)
}

// runBySet reports whether a policy says that a MemberSet controls it.
func runBySet(policy *v1alpha1.EvictionPolicy) bool {
	if policy == nil {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(policy)
	return owner != nil && owner.Kind == "MemberSet" && owner.APIVersion == v1alpha1.GroupVersion.String()
}

// marked reads what a step rests on where the member is one of a MemberSet, whose policy has its name and whose pods have the names of its members.
func (r *reconciler) marked(ctx context.Context, l *look) error {
	set, err := r.memberSet(ctx, l)
	if err != nil {
		return err
	}
	return r.markedBy(ctx, l, set)
}

// markedBy does so for a set that was read; nil: there is none, or it does not control the policy.
func (r *reconciler) markedBy(ctx context.Context, l *look, set *v1alpha1.MemberSet) error {
	l.in.Delegated = &replacement.Delegated{Marked: l.markOf(set)}
	l.permitOfMarked()
	if err := r.readPod(ctx, l, l.in.Member.ID); err != nil {
		return err
	}
	if l.pod != nil && set != nil && !r.mayBeOf(l, set) { // its set could make none of the name
		l.pod = nil
	}
	if l.pod != nil {
		l.in.Pod = namedPod(l.pod)
		l.in.Pod.Node.Name = l.pod.Spec.NodeName
	}
	if l.in.Progress.Phase == replacement.Joining || set == nil || l.policy == nil {
		return nil
	}
	if l.pod != nil && l.provider() != nil && !r.isMember(l)(policycache.Facts(l.pod)) { // its labels were altered, and no rules of the member's would be asked by them
		l.lacks(replacement.NoMember(l.in.Member.Role, l.in.Member.ID, l.policy.Name))
	}
	input, err := r.input(ctx, l)
	if err != nil {
		return err
	}
	l.judged(input)
	if reported(input.Evidence, l.in.Member.ID) == replacement.No && r.unlisted(ctx, set, l.in.Member.ID) {
		l.in.Delegated.Marked.Fresh = true
	}
	return nil
}

// mayBeOf reports whether the pod of the member's name may be the one that a set has made: the set controls it, or nothing does, and it is the predecessor or has the
// member's labels. A pod that anyone has given the name says nothing of the member.
func (r *reconciler) mayBeOf(l *look, set *v1alpha1.MemberSet) bool {
	if owner := metav1.GetControllerOfNoCopy(l.pod); owner != nil {
		return owner.UID == set.UID
	}
	return l.policy == nil || l.pod.UID == l.in.Progress.PodUID || r.isMember(l)(policycache.Facts(l.pod))
}

// unlisted reports whether the list of the set's own system, as a quorum has it now, is without a member. Who was taken off it by others is not missed any more, and
// rules that ask what its system says of it would hold it for ever.
func (r *reconciler) unlisted(ctx context.Context, set *v1alpha1.MemberSet, id string) bool {
	source := policycache.SetSource(set)
	kind, known := r.Gatherer.Observer.Kind(source)
	if !known || kind.Set == nil || !kind.Set.Lists || set.Status.Formed == nil {
		return false
	}
	listing, err := r.Gatherer.Observer.List(ctx, source)
	return err == nil && listing.Cluster == set.Status.Formed.Cluster && !slices.ContainsFunc(listing.Entries, func(e memberset.Entry) bool {
		return e.Name == id || e.Name == "" // which has not started, and may be anyone's
	})
}

// permitOfMarked takes a permit as given where there is no policy that could take note of it, which its set makes anew: but only for what its set goes on with in
// any case. One that is replaced already needs none, and where none is written there is none to take back.
func (l *look) permitOfMarked() {
	written := l.policy != nil && eviction.ReplacingFor(&l.policy.Status, l.request.UID) >= 0
	marked := l.in.Delegated.Marked
	switch begun := marked.Listed && marked.Step == v1alpha1.RemovalRemoving; {
	case l.in.Progress.Phase == replacement.Joining && !written:
		l.in.PermitTime = time.Time{}
	case l.policy != nil:
	case begun:
		l.in.PermitTime = l.in.Now
	default: // the rules are its policy's, and that it is not there is one of them
		l.in.PermitTime, marked.Fresh = time.Time{}, false
	}
}

// marking reads the MemberSet that removes the member for this request, whatever has become of its policy; nil: none does.
func (r *reconciler) marking(ctx context.Context, l *look) (*v1alpha1.MemberSet, error) {
	set := &v1alpha1.MemberSet{}
	if err := r.live.Get(ctx, client.ObjectKey{Namespace: l.request.Namespace, Name: l.request.Spec.Source.Name}, set); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if slices.ContainsFunc(set.Status.Members, func(m v1alpha1.SetMember) bool { return m.Removal != nil && m.Removal.RequestUID == l.request.UID }) {
		return set, nil
	}
	return nil, nil
}

// memberSet reads the set that controls the policy, past the cache; nil: none does.
func (r *reconciler) memberSet(ctx context.Context, l *look) (*v1alpha1.MemberSet, error) {
	set := &v1alpha1.MemberSet{}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(l.policy), set)
	switch {
	case apierrors.IsNotFound(err), err == nil && !metav1.IsControlledBy(l.policy, set):
		l.in.Unread = append(l.in.Unread, replacement.NoSet(l.policy.Name))
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading MemberSet %s: %w", l.policy.Name, err)
	}
	return set, nil
}

// markOf is what a set says of the member; nil: it was not read.
func (l *look) markOf(set *v1alpha1.MemberSet) *replacement.Marked {
	marked := &replacement.Marked{Set: l.request.Spec.Source.Name, Gone: set == nil}
	if set == nil {
		return marked
	}
	at := slices.IndexFunc(set.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == l.in.Member.ID })
	group := ""
	if at >= 0 {
		m := &set.Status.Members[at]
		group, marked.Fresh = m.Group, m.State == v1alpha1.MemberJoining
		marked.Listed = m.Removal == nil || m.Removal.Step != v1alpha1.RemovalRemoved
		switch {
		case m.Removal == nil:
		case m.Removal.RequestUID == l.request.UID:
			marked.Step = m.Removal.Step
		default:
			marked.Other = m.Removal.Request
		}
	}
	marked.Past = !marked.Listed && memberset.Had(set, l.in.Member.ID) && !replacement.WasMissing(&l.request.Status, l.in.Member, marked.Set)
	var last *v1alpha1.SetMember
	if marked.Complete, last = completeness(set, group, l.in.Member.Role); last != nil && !last.StartTime.Before(&l.request.CreationTimestamp) {
		marked.Successor = &replacement.Successor{Name: last.ID, Node: last.Node, Ready: true, Reported: replacement.Yes}
	}
	return marked
}

// completeness reports whether the groups of a role ("": that one group alone) have as many members that do their work as they are to have, without those
// that are marked, and which of them came last.
func completeness(set *v1alpha1.MemberSet, group, role string) (complete bool, last *v1alpha1.SetMember) {
	complete = set.Status.ObservedGeneration == set.Generation
	for i := range set.Spec.Groups {
		g := &set.Spec.Groups[i]
		if g.Role != role || group != "" && g.Name != group {
			continue
		}
		working := slices.DeleteFunc(slices.Clone(set.Status.Members), func(m v1alpha1.SetMember) bool {
			return m.Group != g.Name || m.State != v1alpha1.MemberWhole || m.Removal != nil
		})
		complete = complete && len(working) >= wanted(set, g.Name)
		for j := range working {
			if m := &working[j]; last == nil || last.StartTime.Before(&m.StartTime) {
				last = m
			}
		}
	}
	return complete, last
}

// wanted is how many members a group is to have, as the set's status says.
func wanted(set *v1alpha1.MemberSet, group string) int {
	for i := range set.Status.Groups {
		if g := &set.Status.Groups[i]; g.Name == group {
			return int(g.Replicas)
		}
	}
	return math.MaxInt
}
