package replacement

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/text"
)

// lists returns what a policy's kind of system asks of the templates of successors; nil: it has no list of members that is changed by asking
// for it.
func (r *reconciler) lists(policy *v1alpha1.EvictionPolicy) func(*corev1.PodSpec) (refusal, remedy string) {
	kind, known := r.Gatherer.Observer.Kind(r.Gatherer.Policies.Source(policy))
	if !known {
		return nil
	}
	return kind.Joins
}

// listing asks for what the system's list of members has, where a successor is another entry of it than its predecessor.
func (r *reconciler) listing(ctx context.Context, l *look) {
	system, predecessor := &l.in.System, l.in.Progress.Registration
	if predecessor == nil && (l.role == nil || l.role.Replace.Successor != v1alpha1.SuccessorNewIdentity || r.lists(l.policy) == nil) {
		return
	}
	system.Listed, system.Left, system.Joined = true, replacement.Unknown, replacement.Unknown
	if l.policy == nil {
		system.Unread = "EvictionPolicy " + l.request.Spec.Source.Name + ", which says how to ask for it, is not there"
		return
	}
	listing, err := r.Gatherer.Observer.Listed(ctx, r.Gatherer.Policies.Source(l.policy), l.in.Member.ID, predecessor)
	if err != nil {
		system.Unread = text.Line(err.Error())
		return
	}
	system.Member, system.Successor = listing.Member, listing.Successor
	system.Left, system.Joined = not(listing.Predecessor), not(!listing.Joined)
	if predecessor == nil {
		system.Left = not(listing.Member != nil)
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
	if a.Kind == replacement.Join {
		return r.Governed.Join(ctx, seen.policy, a.Registration)
	}
	return r.Governed.Leave(ctx, seen.policy, a.Registration)
}
