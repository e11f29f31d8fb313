package replacement

import (
	"context"
	"errors"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/text"
)

// kind returns a policy's kind of system.
func (r *reconciler) kind(policy *v1alpha1.EvictionPolicy) system.Kind {
	if policy == nil {
		return system.Kind{}
	}
	kind, _ := r.Gatherer.Observer.Kind(r.Gatherer.Policies.Source(policy))
	return kind
}

// succession says how the policy's system has a member followed by its successor.
func (r *reconciler) succession(policy *v1alpha1.EvictionPolicy) system.Succession {
	if policy == nil {
		return system.Succession{}
	}
	return r.kind(policy).SuccessionOf(&policy.Spec.System)
}

// order is when the member is to leave its system and its successor to join: what was begun goes on as it was, as far as the policy says how.
func (r *reconciler) order(l *look) replacement.Order {
	order, begun := r.succession(l.policy).Order, l.in.Progress.Phase != replacement.Waiting
	switch known := l.policy != nil && r.kind(l.policy).Name != ""; {
	case begun && l.in.Progress.Registration == nil:
		return ""
	case !l.in.Progress.LeftTime.IsZero():
		return replacement.BySteps
	case begun && !known:
		return replacement.LeavesFirst
	case !begun && (l.role == nil || order != replacement.BySteps && l.role.Replace.Successor != v1alpha1.SuccessorNewIdentity):
		return ""
	}
	return order
}

// listing asks for what the system's list of members has, where it is asked to change it.
func (r *reconciler) listing(ctx context.Context, l *look) {
	list, predecessor := &l.in.System, l.in.Progress.Registration
	if list.Order = r.order(l); list.Order == "" {
		return
	}
	list.Left, list.Joined = replacement.Unknown, replacement.Unknown
	if l.policy == nil {
		list.Unread = "EvictionPolicy " + l.request.Spec.Source.Name + ", which says how to ask for it, is not there"
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patienceOf(l.policy)-patience/2) // the rest is for what is read after it
	defer cancel()
	listing, err := r.Gatherer.Observer.Listed(ctx, r.Gatherer.Policies.Source(l.policy), l.asMember(), predecessor)
	if err != nil {
		list.Unread, list.Elsewhere = text.Line(err.Error()), errors.Is(err, system.ErrOtherSystem)
		return
	}
	list.Member, list.MemberFailed, list.Successor = listing.Member, listing.Failed, listing.Successor
	list.Left, list.Joined = not(listing.Predecessor), not(!listing.Joined)
	if predecessor == nil {
		list.Left = not(listing.Member != nil)
	}
}

// asMember is the member as its system is asked about it.
func (l *look) asMember() system.Member {
	member := system.Member{MemberRef: l.in.Member}
	switch {
	case l.pod != nil:
		member.Pod = policycache.Facts(l.pod)
	case l.in.Member.PodName != "":
		member.Pod = &snapshot.Pod{Namespace: l.request.Namespace, Name: l.in.Member.PodName}
	}
	return member
}

func not(is bool) replacement.Tristate {
	if is {
		return replacement.No
	}
	return replacement.Yes
}

// change asks the system for a change of its list of members.
func (r *reconciler) change(ctx context.Context, seen *look, a *replacement.Action) answers.Answer {
	if seen.policy == nil {
		return answers.Answer{Code: answers.RefusedForNow, Message: "its policy is not there"}
	}
	ctx, cancel := context.WithTimeout(ctx, patienceOf(seen.policy)) // one that takes longer is asked for again
	defer cancel()
	if a.Kind == replacement.Join {
		return r.Governed.Join(ctx, seen.policy, seen.asMember(), a.Registration)
	}
	return r.Governed.Leave(ctx, seen.policy, seen.asMember(), a.Registration)
}
