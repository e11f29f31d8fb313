package replacement

import (
	"context"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/text"
)

// kind returns a policy's kind of system. Where its Joins is nil, the system has no list of members that is changed by asking for it.
func (r *reconciler) kind(policy *v1alpha1.EvictionPolicy) system.Kind {
	if policy == nil {
		return system.Kind{}
	}
	kind, _ := r.Gatherer.Observer.Kind(r.Gatherer.Policies.Source(policy))
	return kind
}

// listing asks for what the system's list of members has, where a successor is another entry of it than its predecessor.
func (r *reconciler) listing(ctx context.Context, l *look) {
	kind, list, predecessor := r.kind(l.policy), &l.in.System, l.in.Progress.Registration
	begun := l.in.Progress.Phase != replacement.Waiting
	if predecessor == nil && (begun || l.role == nil || l.role.Replace.Successor != v1alpha1.SuccessorNewIdentity || kind.Joins == nil) {
		return
	}
	list.Listed, list.LeavesLast, list.Left, list.Joined = true, kind.LeavesLast, replacement.Unknown, replacement.Unknown
	if l.policy == nil {
		list.Unread = "EvictionPolicy " + l.request.Spec.Source.Name + ", which says how to ask for it, is not there"
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience/2) // the rest is for what is read after it
	defer cancel()
	listing, err := r.Gatherer.Observer.Listed(ctx, r.Gatherer.Policies.Source(l.policy), l.in.Member.ID, predecessor)
	if err != nil {
		list.Unread = text.Line(err.Error())
		return
	}
	list.Member, list.Successor = listing.Member, listing.Successor
	list.Left, list.Joined = not(listing.Predecessor), not(!listing.Joined)
	if predecessor == nil {
		list.Left = not(listing.Member != nil)
	}
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
	ctx, cancel := context.WithTimeout(ctx, patience) // one that takes longer is asked for again
	defer cancel()
	if a.Kind == replacement.Join {
		return r.Governed.Join(ctx, seen.policy, a.Registration)
	}
	return r.Governed.Leave(ctx, seen.policy, a.Registration)
}
