package replacement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
)

const (
	// soon is when to look again after a write: what it has changed is looked at before the next.
	soon = 50 * time.Millisecond
	// unwatched is when to look again at claims, volumes and StatefulSets, which are not watched: the rights to that are optional.
	unwatched = 2 * time.Second
	// later is when to look again where something is in the way of which no event comes, or a write was refused.
	later = 10 * time.Second
	// anyway is when to look again where an event comes of all that is waited for: its watch may hang.
	anyway = time.Minute
	// seldom is when to look again where nothing helps that is only waited for.
	seldom = 5 * time.Minute
	// turns is how many steps follow each other at once at most.
	turns = 8
	// patience is how long a system may keep a worker waiting at least; its policy may give it longer.
	patience = 5 * time.Second
)

// patienceOf is how long the system of a policy, nil where there is none, may keep a worker waiting.
func patienceOf(policy *v1alpha1.EvictionPolicy) time.Duration {
	if policy == nil {
		return patience
	}
	return min(max(patience, policy.Spec.Evidence.Timeout.Duration), v1alpha1.MaxTimeout)
}

// patienceFor is the same for the policy that a request names, by the cache.
func (r *reconciler) patienceFor(ctx context.Context, request *v1alpha1.ReplacementRequest) time.Duration {
	policy, err := r.Gatherer.Policies.Policy(ctx, (&look{request: request}).policyKey())
	if err != nil { // the look itself says so
		return patience
	}
	return patienceOf(policy)
}

func (r *reconciler) reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	request := &v1alpha1.ReplacementRequest{}
	if err := r.client.Get(ctx, key.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if request = r.known.latest(request); ended(request) {
		return reconcile.Result{}, nil
	}
	if wait, err := r.stands(ctx, request); err != nil || wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, err
	}
	if done, result, err := r.lightly(ctx, request); err != nil || done {
		return result, err
	}
	recent := r.Now().Sub(r.known.last(request.UID)) < anyway
	if recent && isHeld(request) && request.DeletionTimestamp == nil && request.Status.Step != v1alpha1.ReplacementRemoving {
		return r.steps(ctx, request) // what is written insists on its version before anything is removed
	}
	live, err := r.read(ctx, request)
	if err != nil || live == nil || ended(live) {
		return reconcile.Result{}, err
	}
	if !isHeld(live) {
		held, answer := r.Act.Hold(ctx, live, true)
		if answer.Code != answers.Accepted {
			return answered(answer, "holding the request")
		}
		r.known.note(held)
		live = held
	}
	return r.steps(ctx, live)
}

// read reads a request past the cache; nil: it is gone.
func (r *reconciler) read(ctx context.Context, request *v1alpha1.ReplacementRequest) (*v1alpha1.ReplacementRequest, error) {
	live := &v1alpha1.ReplacementRequest{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(request), live); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	r.known.note(live)
	return live, nil
}

func isHeld(request *v1alpha1.ReplacementRequest) bool {
	return slices.Contains(request.Finalizers, v1alpha1.ReplacementFinalizer)
}

// ended reports whether nothing is to be done for a request any more.
func ended(request *v1alpha1.ReplacementRequest) bool {
	return !isHeld(request) && (request.Status.Over() || request.DeletionTimestamp != nil)
}

// steps takes the steps that follow each other without anything that is waited for. What the apiserver answered to the last write is the request as it
// is then, and need not be read again.
func (r *reconciler) steps(ctx context.Context, request *v1alpha1.ReplacementRequest) (reconcile.Result, error) {
	seen, err := r.resume(ctx, request)
	for range turns {
		if err != nil {
			return reconcile.Result{}, err
		}
		written, result, err := r.step(ctx, seen)
		if err != nil || written == nil {
			return result, err
		}
		if seen, err = r.lookOn(ctx, seen, written); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: soon}, nil
}

// step takes one step, after another look where it removes something. It returns the request where the next step follows at once.
func (r *reconciler) step(ctx context.Context, seen *look) (*v1alpha1.ReplacementRequest, reconcile.Result, error) {
	result := replacement.Step(seen.in)
	if len(result.Actions) == 0 && r.overtaken(ctx, seen) {
		return seen.request, reconcile.Result{}, nil
	}
	if removes(&result) {
		if wanted, err := r.wanted(ctx, seen); err != nil || !wanted { // what has changed is an event
			return nil, reconcile.Result{RequeueAfter: unwatched}, err
		}
		if same, err := r.lookAgain(ctx, seen); err != nil || !same {
			return nil, reconcile.Result{RequeueAfter: soon}, err
		}
		result = replacement.Step(seen.in)
	}
	if len(result.Actions) == 0 && seen.request.Status.Over() {
		changed, answer := r.Act.Hold(ctx, seen.request, false)
		if answer.Code == answers.Accepted {
			r.known.note(changed)
		} else if _, err := r.read(ctx, seen.request); err != nil {
			return nil, reconcile.Result{}, err
		}
		result, err := answered(answer, "letting the request go")
		return nil, result, err
	}
	return r.carryOut(ctx, seen, &result)
}

// overtaken reports whether members were let go or have gone since a look by its policy: what the system says is of an earlier epoch then, and holds the
// member until it is asked again.
func (r *reconciler) overtaken(ctx context.Context, seen *look) bool {
	if seen.policy == nil || seen.in.Progress.Phase.Over() {
		return false
	}
	policy, err := r.Gatherer.Policies.Policy(ctx, seen.policyKey())
	return err == nil && policy.UID == seen.policy.UID && policy.Status.Epoch > seen.policy.Status.Epoch
}

// removes reports whether a step removes something, or has another controller remove it.
func removes(result *replacement.StepResult) bool {
	return slices.ContainsFunc(result.Actions, func(a replacement.Action) bool {
		return a.Kind == replacement.Leave || a.Kind == replacement.DeleteClaim || a.Kind == replacement.DeletePod || a.Kind == replacement.Patch
	})
}

// answered looks again: at once where it was accepted or the object has changed, later where a right is missing, say.
func answered(answer answers.Answer, doing string) (reconcile.Result, error) {
	switch answer.Code {
	case answers.Accepted, answers.Conflict, answers.Gone:
		return reconcile.Result{RequeueAfter: soon}, nil
	case answers.RefusedByBudget, answers.RefusedForNow, answers.SeveralBudgets, answers.Denied, answers.NamespaceTerminating, answers.Forbidden,
		answers.Unavailable, answers.Rejected:
	}
	return reconcile.Result{}, fmt.Errorf("%s: %s", doing, cmp.Or(answer.Message, string(answer.Code)))
}

// carryOut does what was decided, in its order, and says what it waits for. It returns the request where something follows at once.
func (r *reconciler) carryOut(ctx context.Context, seen *look, result *replacement.StepResult) (*v1alpha1.ReplacementRequest, reconcile.Result, error) {
	for i := range result.Actions {
		action := &result.Actions[i]
		if action.Kind == replacement.Write {
			return r.report(ctx, seen, result, &action.Progress, 0)
		}
		answer := r.do(ctx, seen, action)
		gone := answer.Code == answers.Gone && (action.Kind == replacement.DeleteClaim || action.Kind == replacement.Release)
		if answer.Code != answers.Accepted && !gone {
			return r.stopped(ctx, seen, result, action, &answer)
		}
	}
	switch last := len(result.Actions) - 1; {
	case last < 0, result.Actions[last].Kind == replacement.DeleteClaim, result.Actions[last].Kind == replacement.DeletePod:
		return r.report(ctx, seen, result, nil, next(seen, result))
	case result.Actions[last].Kind == replacement.RetainVolume: // a look that takes over what was read before would not see it
		return nil, reconcile.Result{RequeueAfter: soon}, nil
	}
	return seen.request, reconcile.Result{}, nil
}

// stopped goes on with nothing after an action that was not accepted.
func (r *reconciler) stopped(ctx context.Context, seen *look, result *replacement.StepResult, action *replacement.Action, answer *answers.Answer) (*v1alpha1.ReplacementRequest, reconcile.Result, error) {
	switch lost := answer.Code == answers.Conflict || answer.Code == answers.Gone; {
	case lost && (action.Kind == replacement.Permit || action.Kind == replacement.Release): // what the policy says is looked at once more
		return seen.request, reconcile.Result{}, r.Gatherer.Refresh(ctx, seen.policyKey(), seen.policyVersion())
	case lost: // it is another by now: nothing goes on by what was seen
		return nil, reconcile.Result{RequeueAfter: soon}, nil
	}
	if action.Kind == replacement.Join && answer.Code == answers.RefusedForNow && seen.in.Progress.Phase == replacement.Removing && !seen.asked {
		seen.asked = true // that it is on the list is seen at another look
		return seen.request, reconcile.Result{}, nil
	}
	refused := r.refused(seen, action, answer)
	result.Blockers = append(result.Blockers, refused)
	after := later
	if was := lastOf(seen.request, refused.Reason); answer.Code == answers.RefusedForNow && was != refused.Message { // it makes progress
		after = unwatched
	}
	return r.report(ctx, seen, result, nil, after)
}

// lastOf is what a request waited for, for the same reason, at the last look; "": for nothing.
func lastOf(request *v1alpha1.ReplacementRequest, reason replacement.Reason) string {
	for i := range request.Status.Blockers {
		if request.Status.Blockers[i].Reason == string(reason) {
			return request.Status.Blockers[i].Message
		}
	}
	return ""
}

// next is when to look again if no event comes before.
func next(seen *look, result *replacement.StepResult) time.Duration {
	after := later
	never := slices.ContainsFunc(result.Blockers, func(b replacement.Blocker) bool { return b.Never || b.Reason == replacement.MemberMissing })
	switch {
	case seen.in.Progress.Phase == replacement.Removing && seen.in.Delegated == nil:
		after = unwatched
	case never:
		after = seldom
	case len(result.Blockers) > 0 && !slices.ContainsFunc(result.Blockers, func(b replacement.Blocker) bool { return !watched(&b) }):
		after = anyway
	}
	if !result.NextLook.IsZero() {
		after = min(after, max(soon, result.NextLook.Sub(seen.in.Now)))
	}
	return after
}

// watched reports whether an event comes when a blocker may have gone: from its node, from the policy, or from what the system says anew.
func watched(b *replacement.Blocker) bool {
	switch b.Reason {
	case replacement.NodeNotProvenOff, replacement.NodeUnready, replacement.PredecessorRuns, replacement.SourceMissing, replacement.ProviderMissing:
		return true
	default:
		return b.Rule != ""
	}
}

// report writes what was seen, with the progress (nil: as it is), where it is not what the request says, and looks again after a time, or goes on at
// once where there is progress.
func (r *reconciler) report(ctx context.Context, seen *look, result *replacement.StepResult, progress *replacement.Progress, after time.Duration) (*v1alpha1.ReplacementRequest, reconcile.Result, error) {
	status := replacement.Reported(&seen.request.Status, seen.request.Generation, &seen.in, result)
	if progress != nil {
		in := seen.in
		in.Progress = *progress
		status = replacement.Reported(&status, seen.request.Generation, &in, &replacement.StepResult{Blockers: result.Blockers, Waived: result.Waived})
	}
	status.Places = seen.places
	r.known.looked(seen.request.UID, r.Now())
	if progress == nil && heldBySystem(seen, result.Blockers) {
		r.known.hold(seen)
	}
	if progress == nil && passing(seen, result) {
		return nil, reconcile.Result{RequeueAfter: min(after, unwatched)}, nil
	}
	changed := seen.request
	if !equality.Semantic.DeepEqual(status, seen.request.Status) {
		var answer answers.Answer
		if changed, answer = r.Act.WriteStatus(ctx, seen.request, &status); answer.Code != answers.Accepted {
			_, read := r.read(ctx, seen.request) // the cache may not show for long what it is by now
			result, err := answered(answer, "writing the status of the request")
			return nil, result, errors.Join(err, read)
		}
		r.known.note(changed)
		r.record(seen, changed)
	}
	switch {
	case progress == nil:
		return nil, reconcile.Result{RequeueAfter: after}, nil
	case progress.Phase == replacement.Joining: // which takes its time
		return nil, reconcile.Result{RequeueAfter: later}, nil
	}
	return changed, reconcile.Result{}, nil
}

// passing reports whether a step has begun a moment ago and waits for nothing but what comes next in any case: that is said once it takes longer.
func passing(seen *look, result *replacement.StepResult) bool {
	phase, begun := seen.in.Progress.Phase, seen.in.Now.Sub(seen.in.StepTime)
	if phase != replacement.Removing && phase != replacement.Joining || begun >= later || begun < 0 {
		return false
	}
	return !slices.ContainsFunc(result.Blockers, func(b replacement.Blocker) bool {
		switch b.Reason {
		case replacement.PredecessorLeaving, replacement.MembershipUnchanged, replacement.SuccessorMissing, replacement.SuccessorUnscheduled, replacement.SuccessorNotReady, replacement.SuccessorNotReported:
			return b.Never
		default:
			return true
		}
	})
}

// do carries out one action that is no Write.
func (r *reconciler) do(ctx context.Context, seen *look, a *replacement.Action) answers.Answer {
	named := snapshot.Key{Namespace: seen.request.Namespace, Name: a.Name}
	switch a.Kind {
	case replacement.Permit:
		permit, is := eviction.PermitReplacement(r.Gatherer.Policies.Declared(seen.policy), seen.entry())
		if !is {
			return answers.Answer{Code: answers.Conflict}
		}
		return r.Governed.Do(ctx, permit)
	case replacement.Release:
		release, is := eviction.ReleaseReplacement(r.Gatherer.Policies.Declared(seen.policy), seen.request.UID)
		if !is {
			return answers.Answer{Code: answers.Accepted}
		}
		return r.Governed.Do(ctx, release)
	case replacement.RetainVolume:
		return r.Act.RetainVolume(ctx, a.Name, a.UID)
	case replacement.DeleteClaim:
		return r.Act.DeleteClaim(ctx, named, a.UID)
	case replacement.DeletePod:
		return r.deletePod(ctx, seen, named, a)
	case replacement.Leave, replacement.Join:
		return r.change(ctx, seen, a)
	case replacement.Patch, replacement.Undo:
		return r.patchTarget(ctx, seen, a.Kind == replacement.Undo)
	case replacement.Write:
	}
	return answers.Answer{Code: answers.Rejected, Message: fmt.Sprintf("%s cannot be carried out", a.Kind)}
}

// deletePod deletes a pod. One that is on the node on which it was seen is the same in another version too, as long as it has the same labels and is Ready
// where it was: its other conditions are written at any time. One that is on none is looked at: it may have found a node meanwhile, or claims that are not
// its predecessor's.
func (r *reconciler) deletePod(ctx context.Context, seen *look, key snapshot.Key, a *replacement.Action) answers.Answer {
	var known corev1.Pod
	if err := r.client.Get(ctx, key, &known); err == nil && known.UID == a.UID && known.DeletionTimestamp != nil {
		return answers.Answer{Code: answers.Accepted} // which is never taken back
	}
	answer := r.Act.DeletePod(ctx, key, a.UID, a.Version)
	if answer.Code != answers.Conflict {
		return answer
	}
	pod, err := r.Gatherer.FreshPod(ctx, key)
	if err != nil || pod == nil || !alike(pod, seen.pod) || isReady(pod) != isReady(seen.pod) || pod.Spec.NodeName == "" || pod.Spec.NodeName != seen.pod.Spec.NodeName {
		return answer
	}
	return r.Act.DeletePod(ctx, key, a.UID, pod.ResourceVersion)
}

// refused is what a replacement waits for where a write was refused.
func (r *reconciler) refused(seen *look, a *replacement.Action, answer *answers.Answer) replacement.Blocker {
	said := cmp.Or(answer.Message, string(answer.Code))
	if a.Kind == replacement.Leave || a.Kind == replacement.Join {
		return replacement.MembershipRefused(a.Kind, seen.request.Spec.Member.ID, said, answer.Code == answers.Rejected)
	}
	if a.Kind == replacement.Patch || a.Kind == replacement.Undo {
		return r.targetRefused(seen, answer)
	}
	if answer.Code != answers.Forbidden {
		return replacement.WriteRefused(string(a.Kind), cmp.Or(a.Name, seen.request.Spec.Member.ID), said, "it is tried again; see the log of usher's manager")
	}
	return replacement.WriteRefused(string(a.Kind), cmp.Or(a.Name, seen.request.Spec.Member.ID), said, bringRights)
}

// bringRights is how an administrator gives the manager the rights without which nothing is replaced: what is installed otherwise lacks their ClusterRoles
// as well.
const bringRights = "usher install --replacement"

// record makes an event of a step that begins, of what the first waits for, and of one that stalls; and of the policy when one of its members is removed
// whose data was given up.
func (r *reconciler) record(seen *look, after *v1alpha1.ReplacementRequest) {
	before := seen.request
	was, is := ready(before), ready(after)
	same, stalled := before.Status.Step == after.Status.Step, meta.IsStatusConditionTrue(after.Status.Conditions, v1alpha1.ConditionStalled)
	switch {
	case is == nil, was != nil && was.Reason == is.Reason && same:
		return
	case !stalled && (same && after.Status.Step == v1alpha1.ReplacementRemoving || after.Status.Step == v1alpha1.ReplacementJoining):
		return // it is on its way
	}
	removed := after.Status.Step == v1alpha1.ReplacementRemoving && len(after.Status.Waived) > 0
	kind := corev1.EventTypeNormal
	if len(after.Status.Blockers) > 0 || removed {
		kind = corev1.EventTypeWarning
	}
	r.events.Eventf(after, nil, kind, is.Reason, "Replace", "%s", act.EventNote(is.Message))
	if removed && before.Status.Step != after.Status.Step && seen.policy != nil {
		id := after.Spec.Member.ID
		r.events.Eventf(seen.policy, after, kind, dataAbandoned, act.EventAction("Replace", id), "%s", act.EventNote("member "+id+": "+is.Message))
	}
}

// dataAbandoned is the reason of the event of a policy.
const dataAbandoned = "DataAbandoned"

func ready(request *v1alpha1.ReplacementRequest) *metav1.Condition {
	at := slices.IndexFunc(request.Status.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionReady })
	if at < 0 {
		return nil
	}
	return &request.Status.Conditions[at]
}
