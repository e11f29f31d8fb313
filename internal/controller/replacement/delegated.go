package replacement

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
)

// delegating reports whether another controller has begun to make the successor.
func delegating(request *v1alpha1.ReplacementRequest) bool {
	return request.Status.Predecessor != nil && request.Status.Predecessor.StatefulSet == ""
}

// delegates reports whether another controller makes the successor: by what was begun, else by what the policy says of the member's entry.
func (r *reconciler) delegates(ctx context.Context, l *look) (bool, error) {
	if p := l.request.Status.Predecessor; p != nil {
		return p.StatefulSet == "", nil
	}
	if l.policy == nil {
		return false, nil
	}
	pod, err := r.memberPod(ctx, l)
	if err != nil {
		return false, err
	}
	l.unshared()
	l.entered(r.Gatherer.Policies, pod)
	provider := l.provider()
	return provider != nil && provider.StatefulSet == nil, nil
}

// entered notes the entry of the policy that claims the member: by its pod, or by its role where it has none (nil).
func (l *look) entered(policies *policycache.Cache, pod *snapshot.Pod) {
	if l.policy == nil {
		return
	}
	compiled := policies.Compiled(l.policy)
	claim, claims := compiled.ClaimOf(l.in.Member.Role, l.in.Member.ID)
	if pod != nil {
		claim, claims = compiled.Claim(pod)
	}
	if claims && claim.Role != nil {
		l.role, l.entryAt = claim.Role, claim.Entry
	}
}

// delegated reads what a step rests on where another controller makes the successor.
func (r *reconciler) delegated(ctx context.Context, l *look) error {
	if l.entryAt < 0 {
		l.entered(r.Gatherer.Policies, nil)
	}
	if is, err := r.ofSet(ctx, l); is || err != nil {
		return err
	}
	joining := l.in.Progress.Phase == replacement.Joining
	l.in.Delegated = &replacement.Delegated{Patches: l.in.Progress.Target != replacement.TargetRef{}}
	if l.in.Progress.Phase == replacement.Waiting {
		l.in.Delegated.Patches = l.patches()
	}
	if err := r.delegatedPod(ctx, l); err != nil {
		return err
	}
	if l.in.Delegated.Patches && (!joining || l.pod != nil) {
		r.target(ctx, l)
	}
	switch {
	case l.policy == nil && joining:
		l.in.Unread = append(l.in.Unread, replacement.NoSource(l.request.Spec.Source.Name))
		return nil
	case l.policy == nil:
		return nil
	case !joining && l.pod != nil && !r.isMember(l)(policycache.Facts(l.pod)):
		l.lacks(replacement.NoMember(l.in.Member.Role, l.in.Member.ID, l.policy.Name))
	}
	input, err := r.input(ctx, l)
	if err != nil {
		return err
	}
	if !joining {
		l.judged(input)
	}
	return r.successors(ctx, l, input.Evidence)
}

// patches reports whether an object is to be patched, and notes where the policy has no other controller make the successor any more: of what was begun
// another may have taken notice, so that it is not begun in another way.
func (l *look) patches() bool {
	switch provider := l.provider(); {
	case l.policy == nil: // as is noted already
	case provider == nil:
		l.lacks(replacement.NoProvider(l.policy.Name, l.in.Member.Role))
	case provider.StatefulSet != nil:
		l.lacks(replacement.ProviderChanged(l.policy.Name))
	default:
		return provider.Patch != nil
	}
	return false
}

// delegatedPod reads the member's pod, if it has one.
func (r *reconciler) delegatedPod(ctx context.Context, l *look) error {
	name := l.request.Status.PodName
	if p := l.request.Status.Predecessor; p != nil {
		name = p.PodName
	} else if pod, err := r.memberPod(ctx, l); err != nil {
		return err
	} else if pod != nil {
		name = pod.Name
	}
	if name == "" {
		return nil
	}
	if err := r.readPod(ctx, l, name); err != nil || l.pod == nil {
		return err
	}
	l.entered(r.Gatherer.Policies, policycache.Facts(l.pod))
	if l.in.Delegated.Patches { // where it runs is its operator's affair
		l.in.Pod = namedPod(l.pod)
		l.in.Pod.Node.Name = l.pod.Spec.NodeName
		return nil
	}
	return r.present(ctx, l)
}

// target reads the object that is patched, and what the patch comes to for it.
func (r *reconciler) target(ctx context.Context, l *look) {
	to := &l.in.Delegated.Target
	to.TargetRef = l.in.Progress.Target
	to.UID = ""
	if !l.patched(r.Gatherer.Policies) {
		return
	}
	if to.Name != "" { // whatever the pod's labels say by now
		l.patch.Target = v1alpha1.PatchTarget{APIVersion: to.APIVersion, Kind: to.Kind, Name: to.Name}
	}
	at := &l.patch.Target
	to.APIVersion, to.Kind, to.Name = at.APIVersion, at.Kind, at.Name
	object, err := r.Targets.Get(ctx, l.request.Namespace, l.policy.Spec.ServiceAccountName, at)
	switch {
	case err != nil:
		l.in.Delegated.Unserved = meta.IsNoMatchError(err)
		l.in.Unread = append(l.in.Unread, r.unreadTarget(l, err)...)
		return
	case object == nil:
		return
	}
	to.UID, to.Undoable = object.UID, l.patch.Undo != nil
	if l.do, err = replacement.MergePatch(object.JSON, &l.patch.Do); err == nil && l.patch.Undo != nil {
		l.undo, err = replacement.MergePatch(object.JSON, l.patch.Undo)
	}
	if err != nil {
		l.in.Unread = append(l.in.Unread, replacement.NotPatchable(at, err.Error()))
		return
	}
	to.Asked, to.Undone = yes(l.do == nil), yes(l.undo == nil)
}

func yes(is bool) replacement.Tristate { return not(!is) }

// patched has the patch's expressions evaluated, and reports whether they have values.
func (l *look) patched(policies *policycache.Cache) bool {
	if l.policy == nil {
		l.in.Unread = append(l.in.Unread, replacement.NoSource(l.request.Spec.Source.Name))
		return false
	}
	var pod *snapshot.Pod
	if l.pod != nil {
		pod = policycache.Facts(l.pod)
	}
	patch, err := policies.Compiled(l.policy).Patch(l.entryAt, l.in.Member, pod)
	switch {
	case err != nil:
		l.in.Unread = append(l.in.Unread, replacement.NoPatch(err.Error()))
	case patch == nil:
		l.in.Unread = append(l.in.Unread, replacement.NoProvider(l.policy.Name, l.in.Member.Role))
	}
	l.patch = patch
	return err == nil && patch != nil
}

// successors are the pods of the member's role that were made since the predecessor began to go, the first ones first.
func (r *reconciler) successors(ctx context.Context, l *look, evidence *eviction.Evidence) error {
	pods, err := r.Gatherer.Policies.Pods(ctx, l.request.Namespace)
	if err != nil {
		return err
	}
	compiled := r.Gatherer.Policies.Compiled(l.policy)
	if l.in.Progress.StartTime.IsZero() {
		for _, pod := range pods {
			if claim, claims := compiled.Claim(pod); claims && claim.Role != nil && claim.Role.Name == l.in.Member.Role && pod.Created.After(l.in.Delegated.LastMade) {
				l.in.Delegated.LastMade = pod.Created
			}
		}
		return nil
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod *snapshot.Pod) bool {
		old := pod.Created.Before(l.in.Progress.StartTime) || pod.UID == l.in.Progress.PodUID
		return old || pod.Terminating() || pod.Finished()
	})
	slices.SortFunc(pods, func(a, b *snapshot.Pod) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) })
	for _, pod := range pods {
		if claim, claims := compiled.Claim(pod); claims && claim.Role != nil && claim.Role.Name == l.in.Member.Role {
			l.in.Delegated.Successors = append(l.in.Delegated.Successors, replacement.Successor{
				Name: pod.Name, UID: pod.UID, Node: pod.Node, Ready: pod.Ready, Reported: reported(evidence, claim.Member),
			})
		}
	}
	return nil
}

// patchTarget has the object ask for the successor, or ask no more. One that was written to meanwhile, as its operator may at any time, is read once more: what
// is asked of it goes by no other part of it.
func (r *reconciler) patchTarget(ctx context.Context, l *look, undo bool) answers.Answer {
	answer := r.patchOnce(ctx, l, undo)
	if answer.Code != answers.Conflict || l.do == nil && l.undo == nil {
		return answer
	}
	uid := l.in.Delegated.Target.UID
	l.do, l.undo = nil, nil
	if r.target(ctx, l); l.in.Delegated.Target.UID != uid {
		return answer
	}
	return r.patchOnce(ctx, l, undo)
}

func (r *reconciler) patchOnce(ctx context.Context, l *look, undo bool) answers.Answer {
	body := l.do
	if undo {
		body = l.undo
	}
	if body == nil || l.policy == nil {
		return answers.Answer{Code: answers.Conflict}
	}
	return r.Targets.Patch(ctx, l.request.Namespace, l.policy.Spec.ServiceAccountName, &l.patch.Target, body)
}
