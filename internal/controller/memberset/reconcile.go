package memberset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/snapshot"
)

const (
	// soon is when to look again after a write: what it has changed is looked at before the next.
	soon = 200 * time.Millisecond
	// unwatched is when to look again while members join or leave: claims, Services and what the system says are not watched.
	unwatched = 2 * time.Second
	// later is when to look again where all that was asked for was refused once more.
	later = 10 * time.Second
	// anyway is when to look again at a set that is complete.
	anyway = time.Minute
	// turns is how many states follow each other at once at most.
	turns = 8
)

func (r *reconciler) reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	cached := &v1alpha1.MemberSet{} // most policies and requests are of none
	if err := r.client.Get(ctx, key.NamespacedName, cached); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	set := &v1alpha1.MemberSet{}
	err := r.live.Get(ctx, key.NamespacedName, set)
	if apierrors.IsNotFound(err) || err == nil && set.DeletionTimestamp != nil {
		r.Gatherer.Observer.Forget(cached.UID)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the set: %w", err)
	}
	for range turns {
		l, err := r.gather(ctx, set)
		if err != nil {
			return reconcile.Result{}, err
		}
		result := memberset.Decide(l.in)
		if !result.Progress {
			return r.carryOut(ctx, l, &result)
		}
		changed, answer := r.Act.WriteStatus(ctx, set, &result.Status)
		if answer.Code != answers.Accepted {
			return answered(answer)
		}
		set = changed
	}
	return reconcile.Result{RequeueAfter: soon}, nil
}

// answered looks again: at once where the object has changed, later where a right is missing, say.
func answered(answer answers.Answer) (reconcile.Result, error) {
	switch answer.Code {
	case answers.Accepted, answers.Conflict, answers.Gone:
		return reconcile.Result{RequeueAfter: soon}, nil
	case answers.RefusedByBudget, answers.RefusedForNow, answers.SeveralBudgets, answers.Denied, answers.NamespaceTerminating, answers.Forbidden,
		answers.Unavailable, answers.Rejected:
	}
	return reconcile.Result{}, fmt.Errorf("writing the status of the set: %s", cmp.Or(answer.Message, string(answer.Code)))
}

// carryOut does what was decided, and says what it waits for. None of it rests on another part of it.
func (r *reconciler) carryOut(ctx context.Context, l *look, result *memberset.Result) (reconcile.Result, error) {
	var refused []memberset.Blocker
	after := unwatched
	for i := range result.Actions {
		action := &result.Actions[i]
		answer := r.do(ctx, l, action)
		switch answer.Code {
		case answers.Accepted, answers.Gone: // what has become of it is looked at anew
			after = min(after, follows(action))
		case answers.Conflict: // it has changed, or is there already
			if makes(action) {
				refused = append(refused, memberset.Taken(action, l.set, r.holder(ctx, l.set, action)))
			}
		case answers.RefusedByBudget, answers.RefusedForNow, answers.SeveralBudgets, answers.Denied, answers.NamespaceTerminating, answers.Forbidden,
			answers.Unavailable, answers.Rejected:
			refused = append(refused, r.refusal(action, &answer))
		}
	}
	status := result.Status
	if len(refused) > 0 {
		status = result.Refused(refused)
	}
	switch unchanged := equality.Semantic.DeepEqual(status, l.set.Status); {
	case !unchanged:
		if _, answer := r.Act.WriteStatus(ctx, l.set, &status); answer.Code != answers.Accepted {
			return answered(answer)
		}
	case len(refused) > 0 && after == unwatched && !slices.ContainsFunc(result.Actions, asks): // nothing was accepted, for the same reasons as before
		after = later
	}
	if len(result.Actions) == 0 && memberset.Rests(&status) {
		after = anyway
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// do carries out one action.
func (r *reconciler) do(ctx context.Context, l *look, a *memberset.Action) answers.Answer {
	named := snapshot.Key{Namespace: l.set.Namespace, Name: a.Name}
	switch a.Kind {
	case memberset.MakePolicy:
		return r.Act.Make(ctx, a.Policy)
	case memberset.ChangePolicy:
		return r.Act.ChangePolicy(ctx, l.policy, &a.Policy.Spec)
	case memberset.MakeClaim:
		return r.Act.Make(ctx, a.Claim)
	case memberset.MakeService:
		return r.Act.Make(ctx, a.Service)
	case memberset.MakePod:
		return r.Act.Make(ctx, a.Pod)
	case memberset.MakeFile:
		return r.Act.Make(ctx, a.ConfigMap)
	case memberset.ChangeFile:
		return r.Act.ChangeConfigMap(ctx, a.UID, a.Version, a.ConfigMap)
	case memberset.Mark:
		return r.mark(ctx, l, a)
	case memberset.Unmark:
		return r.Act.Unmark(ctx, named, a.UID)
	case memberset.DeletePod:
		return r.Members.DeletePod(ctx, named, a.UID, a.Version)
	case memberset.EvictPod:
		if answer := r.try(ctx, a.Pod); answer.Code != answers.Accepted {
			return answer
		}
		return r.Act.AskEviction(ctx, named, a.UID)
	case memberset.TryPod:
		return r.stay(ctx, named, a)
	case memberset.KeepPod:
		return r.Act.WithdrawEviction(ctx, named, a.UID)
	case memberset.RelabelPod:
		return r.Act.Relabel(ctx, named, a)
	case memberset.RetainVolume:
		return r.Members.RetainVolume(ctx, a.Name, a.UID)
	case memberset.DeleteClaim:
		return r.Members.DeleteClaim(ctx, named, a.UID)
	case memberset.DeleteService:
		return r.Act.DeleteService(ctx, named, a.UID)
	case memberset.Admit, memberset.Expel, memberset.Form, memberset.Lead, memberset.Empty, memberset.Refill,
		memberset.Maintain, memberset.EndMaintenance:
		return r.resize(ctx, l, a)
	}
	return answers.Answer{Code: answers.Rejected, Message: fmt.Sprintf("%s cannot be carried out", a.Kind)}
}

// makes reports whether an action makes an object that is looked for by the set's label.
func makes(a *memberset.Action) bool {
	return a.Kind == memberset.MakePod || a.Kind == memberset.MakeClaim || a.Kind == memberset.MakeService
}

// holder reads what has the name of an object that an action would make; nil: it is not known, and the next look says it.
func (r *reconciler) holder(ctx context.Context, set *v1alpha1.MemberSet, a *memberset.Action) *memberset.Object {
	named := client.ObjectKey{Namespace: set.Namespace, Name: a.Member}
	if a.Claim != nil {
		claim := &corev1.PersistentVolumeClaim{}
		named.Name = a.Claim.Name
		if r.live.Get(ctx, named, claim) != nil {
			return nil
		}
		there := memberset.ClaimOf(set, claim)
		return &there.Object
	}
	var found client.Object = &corev1.Pod{}
	if a.Service != nil {
		found = &corev1.Service{}
	}
	if r.live.Get(ctx, named, found) != nil {
		return nil
	}
	there := memberset.ObjectOf(set, found)
	return &there
}

// follows is when to look again after an action that was accepted.
func follows(a *memberset.Action) time.Duration {
	if a.Kind == memberset.TryPod { // it has changed nothing
		return unwatched
	}
	return soon
}

// try says whether the apiserver would accept a pod in the place of that of its name.
func (r *reconciler) try(ctx context.Context, pod *corev1.Pod) answers.Answer {
	answer := r.Act.TryPod(ctx, pod)
	if answer.Code != answers.Accepted {
		answer.Message = "the pod that it would be made anew as is not accepted: " + cmp.Or(answer.Message, string(answer.Code))
	}
	return answer
}

// stay takes the eviction of a pod back that could not be made anew.
func (r *reconciler) stay(ctx context.Context, named snapshot.Key, a *memberset.Action) answers.Answer {
	answer := r.try(ctx, a.Pod)
	switch answer.Code {
	case answers.Denied, answers.Rejected, answers.Forbidden:
		if taken := r.Act.WithdrawEviction(ctx, named, a.UID); taken.Code != answers.Accepted && taken.Code != answers.Gone {
			return taken
		}
		return answer
	default: // it is tried again
		return answers.Answer{Code: answers.Accepted}
	}
}

// tries reports whether an action has a pod tried.
func tries(a *memberset.Action) bool {
	return a.Kind == memberset.EvictPod || a.Kind == memberset.TryPod
}

// asks reports whether an action is asked for until the system says that it is done.
func asks(a memberset.Action) bool {
	return slices.Contains([]memberset.ActionKind{
		memberset.Admit, memberset.Expel, memberset.Form, memberset.Lead, memberset.Empty, memberset.Refill,
		memberset.Maintain, memberset.EndMaintenance,
	}, a.Kind)
}

// mark makes a request for the set's policy, with which it goes.
func (r *reconciler) mark(ctx context.Context, l *look, a *memberset.Action) answers.Answer {
	if l.policy == nil {
		return answers.Answer{Code: answers.Conflict}
	}
	return r.Members.Create(ctx, a.Request, l.policy)
}

// resize asks the system for a change of its list, or of what is on a member. What it has said before decides nothing any more.
func (r *reconciler) resize(ctx context.Context, l *look, a *memberset.Action) answers.Answer {
	if l.policy != nil {
		defer r.Gatherer.Observer.Outdate(l.policy.UID)
	}
	if l.in.Kind.Empties {
		return r.empty(ctx, l, a)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if a.Kind == memberset.Expel {
		return r.Act.Expel(ctx, l.source, a.Entry)
	}
	return r.Act.Admit(ctx, l.source, l.set.Status.Formed.Cluster, a.Addresses)
}

// empty asks a system whose members are emptied. It has the time that spec.evidence gives it.
func (r *reconciler) empty(ctx context.Context, l *look, a *memberset.Action) answers.Answer {
	switch a.Kind { //nolint:exhaustive // the others are none that the system is asked for
	case memberset.Form:
		return r.Act.Form(ctx, l.source, l.members)
	case memberset.Lead:
		return r.Act.Lead(ctx, l.source)
	case memberset.Empty:
		return r.Act.Empty(ctx, l.source, l.member(a.Member))
	case memberset.Refill:
		return r.Act.Refill(ctx, l.source, l.member(a.Member))
	case memberset.Maintain:
		return r.Act.Maintain(ctx, l.source, a.Zone, a.Timeout)
	case memberset.EndMaintenance:
		return r.Act.EndMaintenance(ctx, l.source, a.Zone)
	}
	return answers.Answer{Code: answers.Rejected, Message: fmt.Sprintf("%s cannot be carried out", a.Kind)}
}

// refusal is what a set waits for where an action was not accepted.
func (r *reconciler) refusal(a *memberset.Action, answer *answers.Answer) memberset.Blocker {
	said := cmp.Or(answer.Message, string(answer.Code))
	switch {
	case asks(*a) && answer.Code == answers.RefusedForNow:
		return memberset.Awaited(a.Member, said)
	case (a.Kind == memberset.MakeFile || a.Kind == memberset.ChangeFile) && answer.Code == answers.Forbidden:
		return memberset.WriteRefused(a, said, r.bindingOfFile(a.ConfigMap.Namespace), false)
	case answer.Code == answers.Forbidden:
		return memberset.WriteRefused(a, said, r.binding(), false)
	case answer.Code == answers.Denied && strings.Contains(said, act.QuotaExceeded):
		return memberset.WriteRefused(a, said, "raise the ResourceQuota, or ask for less; usher plan -f says beforehand how much there is at once at most", false)
	case answer.Code == answers.Denied && (makes(a) || tries(a)):
		return memberset.WriteRefused(a, said, "change what the template of its group asks for, or have it admitted; it is tried again", false)
	case answer.Code == answers.Rejected && (makes(a) || tries(a)):
		return memberset.WriteRefused(a, said, "correct its template in spec.groups", true)
	}
	return memberset.WriteRefused(a, said, "it is tried again", answer.Code == answers.Rejected)
}
