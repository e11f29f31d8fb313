package replacement

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
)

// lookOn looks on after a write, or after the system was asked for a change: at what the policy says, and at what the system and the other members say
// since. What is left of the member itself was read a moment ago, and is read again before anything of it goes. What was not found then is looked for anew,
// and so is all where the policy was changed, or where that took long and the member is not off its system's list yet.
func (r *reconciler) lookOn(ctx context.Context, before *look, request *v1alpha1.ReplacementRequest) (*look, error) {
	if before.in.Delegated != nil || before.in.Member.PodName == "" || before.in.Set.Name == "" {
		return r.look(ctx, request)
	}
	ctx, cancel := context.WithTimeout(ctx, r.patienceFor(ctx, request))
	defer cancel()
	l := r.newLook(request)
	if err := r.source(ctx, l); err != nil || l.in.Progress.Phase.Over() {
		return l, err
	}
	l.read = before.read
	if !declaredAlike(l.policy, before.policy) {
		return r.lookAnew(ctx, before, request)
	}
	l.pod, l.nodes, l.places, l.data, l.made, l.template, l.pods = before.pod, before.nodes, before.places, before.data, before.made, before.template, before.pods
	from := &before.in
	l.in.Member, l.in.Set, l.in.Pod, l.in.Places, l.in.Claims = from.Member, from.Set, from.Pod, from.Places, from.Claims
	l.in.Unread, l.in.Grace, l.in.Retain, l.asked = from.Unread, from.Grace, from.Retain, before.asked
	l.unshared()
	l.claimed(r.Gatherer.Policies)
	r.listing(ctx, l)
	if l.outdated(r.Now()) {
		return r.lookAnew(ctx, before, request)
	}
	return l, r.judge(ctx, l)
}

// resume looks at a request. Where the look before was held up by what the system said alone, and was a moment ago, it goes on with that: an answer of the
// system is what it was waiting for, and of the member itself nothing goes before that is read again.
func (r *reconciler) resume(ctx context.Context, request *v1alpha1.ReplacementRequest) (*look, error) {
	before := r.known.held(request.UID)
	if before == nil || request.DeletionTimestamp != nil || r.Now().Sub(before.read) >= before.lookLife() || !r.unchanged(ctx, before) {
		return r.look(ctx, request)
	}
	return r.lookOn(ctx, before, request)
}

// unchanged reports whether the cache has the pod of a look, and its nodes, as they were read then: a permit is written by what they say, before they are read
// again.
func (r *reconciler) unchanged(ctx context.Context, l *look) bool {
	var pod corev1.Pod
	err := r.client.Get(ctx, client.ObjectKey{Namespace: l.request.Namespace, Name: l.in.Member.PodName}, &pod)
	if same := l.pod != nil && alike(&pod, l.pod) && saysTheSame(&pod, l.pod); err != nil && l.pod != nil || err == nil && !same {
		return false
	}
	for name, before := range l.nodes {
		if !r.nodeUnchanged(ctx, name, before.facts) {
			return false
		}
	}
	return true
}

// saysTheSame reports whether two states of a pod say the same of where it is, and of whether it goes and does its work.
func saysTheSame(a, b *corev1.Pod) bool {
	was, is := namedPod(a), namedPod(b)
	was.Version = is.Version
	return a.Spec.NodeName == b.Spec.NodeName && *was == *is
}

// nodeUnchanged reports whether a node is in the cache as it was read, but for when its kubelet has reported last, which is in no Node.
func (r *reconciler) nodeUnchanged(ctx context.Context, name string, before replacement.Node) bool {
	object := &corev1.Node{}
	err := r.client.Get(ctx, client.ObjectKey{Name: name}, object)
	if apierrors.IsNotFound(err) {
		object, err = nil, nil
	}
	if err != nil {
		return false
	}
	now, err := r.standing(ctx, name, object)
	now.Until = before.Until
	return err == nil && now == before
}

// heldBySystem reports whether all that a look waits for comes of what the member's system says: the verdict, and its list of members. A successor is looked
// at anew: it is complete without another look. So is a claim without a volume, where volumes are kept: it is not read again before it is deleted, and no event
// says that it was bound.
func heldBySystem(seen *look, blockers []replacement.Blocker) bool {
	unbound := seen.in.Retain && slices.ContainsFunc(seen.in.Claims, func(c replacement.Claim) bool { return c.UID != "" && c.Volume == "" })
	if unbound || seen.in.Progress.Phase == replacement.Joining {
		return false
	}
	return len(blockers) > 0 && !seen.asked && seen.in.Delegated == nil && !slices.ContainsFunc(blockers, func(b replacement.Blocker) bool {
		judged := slices.ContainsFunc(seen.verdict, func(of replacement.Blocker) bool { return of.Reason == b.Reason && of.Message == b.Message })
		return !judged && b.Reason != replacement.MembershipNotKnown
	})
}

// lookLife is how long what was read of a member serves the steps that follow: two answers of a system that has to wait for a lost member.
func (l *look) lookLife() time.Duration { return 2 * patienceOf(l.policy) }

// outdated reports whether what was read of the member has to be read again. Of one that is off its system's list nothing of use is left, and what goes of it
// is named by its UID, so that several answers of a slow system may follow each other.
func (l *look) outdated(now time.Time) bool {
	most := l.lookLife()
	if replacement.Expelled(&l.in) {
		most *= 2
	}
	return now.Sub(l.read) >= most
}

// lookAnew reads all again.
func (r *reconciler) lookAnew(ctx context.Context, before *look, request *v1alpha1.ReplacementRequest) (*look, error) {
	l, err := r.look(ctx, request)
	l.asked = before.asked
	return l, err
}

// declaredAlike reports whether two states of a policy, nil where it was not there, say the same of its members.
func declaredAlike(a, b *v1alpha1.EvictionPolicy) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.Generation == b.Generation && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil)
}

// lookAgain reads the pod and the nodes once more, just before something is removed by what was seen, and reports whether the pod is the same: its system
// was asked meanwhile. What goes is named by its UID in any case. Of a member that is off its system's list nothing is asked any more: where it may run by now
// changes nothing.
func (r *reconciler) lookAgain(ctx context.Context, l *look) (same bool, err error) {
	if l.in.Delegated != nil || replacement.Expelled(&l.in) { // what is asked of another controller names the version that was seen
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pod, err := r.Gatherer.FreshPod(ctx, snapshot.Key{Namespace: l.request.Namespace, Name: l.in.Member.PodName})
	if err != nil || (pod == nil) != (l.pod == nil) || pod != nil && !alike(pod, l.pod) {
		return false, err
	}
	l.pod, l.nodes, l.in.Pod, l.in.Places = pod, map[string]node{}, nil, nil
	if err := r.present(ctx, l); err != nil || l.in.Progress.Phase == replacement.Joining {
		return err == nil, err
	}
	return true, r.whereabouts(ctx, l)
}

// alike reports whether two states of a pod are of the same one, and say the same of whose member it is.
func alike(a, b *corev1.Pod) bool {
	return a.UID == b.UID && equality.Semantic.DeepEqual(a.Labels, b.Labels)
}

// wanted reports whether neither the request nor what its policy says has changed since a look, by the cache: the system was asked meanwhile, which may take
// its time.
func (r *reconciler) wanted(ctx context.Context, l *look) (bool, error) {
	var request v1alpha1.ReplacementRequest
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(l.request), &request); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	policy, err := r.Gatherer.Policies.Policy(ctx, l.policyKey())
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	begun := l.in.Cancelled || request.DeletionTimestamp == nil
	return begun && request.UID == l.request.UID && request.Generation <= l.request.Generation && declaredAlike(policy, l.policy), nil
}
