package replacement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/observe"
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
	// seldom is when to look again where nothing helps that is only waited for.
	seldom = 5 * time.Minute
	// patience is how long a system may keep a worker waiting for evidence.
	patience = 5 * time.Second
)

func (r *reconciler) reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	request := &v1alpha1.ReplacementRequest{}
	if err := r.live.Get(ctx, key.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	held := slices.Contains(request.Finalizers, v1alpha1.ReplacementFinalizer)
	if !held && (request.Status.Over() || request.DeletionTimestamp != nil) {
		return reconcile.Result{}, nil
	}
	if !held {
		return answered(r.Act.Hold(ctx, request, true), "holding the request")
	}
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	seen, err := r.look(asking, request)
	if err != nil {
		return reconcile.Result{}, err
	}
	result := replacement.Step(seen.in)
	if len(result.Actions) == 0 && request.Status.Over() {
		return answered(r.Act.Hold(ctx, request, false), "letting the request go")
	}
	return r.carryOut(ctx, seen, &result)
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

// carryOut does what was decided, in its order, and says what it waits for.
func (r *reconciler) carryOut(ctx context.Context, seen *look, result *replacement.StepResult) (reconcile.Result, error) {
	for i := range result.Actions {
		action := &result.Actions[i]
		if action.Kind == replacement.Write {
			return r.report(ctx, seen, result, &action.Progress, soon)
		}
		if same, err := r.unbound(ctx, seen, action); err != nil || !same {
			return reconcile.Result{RequeueAfter: soon}, err
		}
		answer := r.do(ctx, seen, action)
		gone := answer.Code == answers.Gone && (action.Kind == replacement.DeleteClaim || action.Kind == replacement.Release)
		switch {
		case answer.Code == answers.Accepted, gone:
			continue
		case answer.Code == answers.Conflict, answer.Code == answers.Gone: // it is another by now: nothing goes on by what was seen
			return reconcile.Result{RequeueAfter: soon}, r.Gatherer.Refresh(ctx, seen.policyKey())
		}
		refused := r.refused(seen, action, &answer)
		result.Blockers = append(result.Blockers, refused)
		after := later
		if was := lastOf(seen.request, refused.Reason); answer.Code == answers.RefusedForNow && was != refused.Message { // it makes progress
			after = unwatched
		}
		return r.report(ctx, seen, result, nil, after)
	}
	if len(result.Actions) > 0 && result.Actions[0].Kind != replacement.DeleteClaim && result.Actions[0].Kind != replacement.DeletePod {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	return r.report(ctx, seen, result, nil, next(seen, result))
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

// unbound reports whether no pod of the member was bound to a node since the look, just before a claim is deleted: its system was asked meanwhile.
func (r *reconciler) unbound(ctx context.Context, seen *look, a *replacement.Action) (bool, error) {
	if a.Kind != replacement.DeleteClaim {
		return true, nil
	}
	pod, err := r.Gatherer.FreshPod(ctx, snapshot.Key{Namespace: seen.request.Namespace, Name: seen.in.Member.PodName})
	if err != nil || pod == nil || pod.Spec.NodeName == "" {
		return err == nil, err
	}
	return seen.pod != nil && pod.UID == seen.pod.UID && pod.Spec.NodeName == seen.pod.Spec.NodeName, nil
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
	}
	if !result.NextLook.IsZero() {
		after = min(after, max(soon, result.NextLook.Sub(seen.in.Now)))
	}
	return after
}

// report writes what was seen, with the progress (nil: as it is), where it is not what the request says, and looks again after a time.
func (r *reconciler) report(ctx context.Context, seen *look, result *replacement.StepResult, progress *replacement.Progress, after time.Duration) (reconcile.Result, error) {
	status := replacement.Reported(&seen.request.Status, seen.request.Generation, &seen.in, result)
	if progress != nil {
		in := seen.in
		in.Progress = *progress
		status = replacement.Reported(&status, seen.request.Generation, &in, &replacement.StepResult{Blockers: result.Blockers, Waived: result.Waived})
	}
	status.Places = seen.places
	if equality.Semantic.DeepEqual(status, seen.request.Status) {
		return reconcile.Result{RequeueAfter: after}, nil
	}
	changed, answer := r.Act.WriteStatus(ctx, seen.request, &status)
	if answer.Code != answers.Accepted {
		return answered(answer, "writing the status of the request")
	}
	r.record(seen, changed)
	return reconcile.Result{RequeueAfter: after}, nil
}

// do carries out one action that is no Write.
func (r *reconciler) do(ctx context.Context, seen *look, a *replacement.Action) answers.Answer {
	named := snapshot.Key{Namespace: seen.request.Namespace, Name: a.Name}
	switch a.Kind {
	case replacement.Permit:
		return r.Governed.Do(ctx, eviction.PermitReplacement(r.Gatherer.Policies.Declared(seen.policy), seen.entry()))
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
		return r.Act.DeletePod(ctx, named, a.UID, a.Version)
	case replacement.Leave, replacement.Join:
		return r.change(ctx, seen, a)
	case replacement.Patch, replacement.Undo:
		return r.patchTarget(ctx, seen, a.Kind == replacement.Undo)
	case replacement.Write:
	}
	return answers.Answer{Code: answers.Rejected, Message: fmt.Sprintf("%s cannot be carried out", a.Kind)}
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
	return replacement.WriteRefused(string(a.Kind), cmp.Or(a.Name, seen.request.Spec.Member.ID), said, r.binding())
}

// binding is how an admin gives the manager the rights that it lacks.
func (r *reconciler) binding() string {
	return "usher install --replacement; or " + observe.BindManager(Role, r.Self)
}

// record makes an event of a step that begins, and of one that stalls; and of the policy when one of its members is removed whose data was given
// up.
func (r *reconciler) record(seen *look, after *v1alpha1.ReplacementRequest) {
	before := seen.request
	was, is := ready(before), ready(after)
	if is == nil || was != nil && was.Reason == is.Reason && before.Status.Step == after.Status.Step {
		return
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
