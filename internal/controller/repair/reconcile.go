package repair

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/text"
)

const (
	// pause is the least time between two looks at a policy.
	pause = 5 * time.Second
	// unwatched is when to look again at StatefulSets, which are not watched: the right to that is optional.
	unwatched = time.Minute
)

func (r *reconciler) reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	policy, err := r.Gatherer.Policies.Policy(ctx, key.NamespacedName)
	if apierrors.IsNotFound(err) {
		r.forget(key.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	policy = policy.DeepCopy()
	if !repaired(policy) {
		r.forget(key.NamespacedName)
		return r.write(ctx, policy, nil, 0)
	}
	if wait := r.early(key.NamespacedName); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	in, err := r.gather(ctx, policy, false)
	if err != nil {
		return reconcile.Result{}, err
	}
	result := replacement.Repair(in)
	if len(result.Requests) > 0 {
		again, err := r.anew(ctx, policy)
		switch {
		case err != nil:
			return reconcile.Result{}, client.IgnoreNotFound(err)
		case again == nil:
			return reconcile.Result{RequeueAfter: pause}, nil
		}
		result = replacement.Repair(*again)
	}
	for i := range result.Requests {
		if answer := r.Act.Create(ctx, &result.Requests[i], policy); answer.Code != answers.Accepted && answer.Code != answers.Conflict {
			refuse(&result, &result.Requests[i], &answer)
		}
	}
	return r.write(ctx, policy, result.Unhealthy, next(r.Now(), &result))
}

// repaired reports whether the members of a policy are looked at.
func repaired(policy *v1alpha1.EvictionPolicy) bool {
	return policy.Spec.Repair != nil && policy.DeletionTimestamp == nil && !policy.Spec.Audited()
}

// anew reads past the cache what decides whether members get a successor: the policy, StatefulSets, and what others have requested meanwhile. It
// returns nil where members are not looked at any more. What is only written down is written at the version of the policy that was read.
func (r *reconciler) anew(ctx context.Context, policy *v1alpha1.EvictionPolicy) (*replacement.RepairInput, error) {
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
		return nil, err
	}
	if !repaired(policy) {
		return nil, nil
	}
	in, err := r.gather(ctx, policy, true)
	if err != nil {
		return nil, err
	}
	in.Requests, err = r.freshRequests(ctx, policy)
	return &in, err
}

// refuse says of a member that no request could be made for it, and why.
func refuse(result *replacement.RepairResult, request *v1alpha1.ReplacementRequest, answer *answers.Answer) {
	for i := range result.Unhealthy {
		if u := &result.Unhealthy[i]; u.Request == request.Name {
			b := replacement.WriteRefused("creating a ReplacementRequest", u.ID, text.Line(cmp.Or(answer.Message, string(answer.Code))), "usher install --replacement gives the manager what it lacks")
			u.Request, u.Blockers = "", []v1alpha1.ReplacementBlocker{{Reason: string(b.Reason), Message: b.Message, Remedy: b.Remedy}}
		}
	}
}

// next is when to look again if no event comes before.
func next(now time.Time, result *replacement.RepairResult) time.Duration {
	if result.NextLook.IsZero() {
		return unwatched
	}
	return min(unwatched, max(pause, result.NextLook.Sub(now)))
}

// write writes what is unhealthy where that is not what the policy says, and looks again after a time.
func (r *reconciler) write(ctx context.Context, policy *v1alpha1.EvictionPolicy, unhealthy []v1alpha1.UnhealthyMember, after time.Duration) (reconcile.Result, error) {
	if equality.Semantic.DeepEqual(policy.Status.Unhealthy, unhealthy) {
		return reconcile.Result{RequeueAfter: after}, nil
	}
	changed, answer := r.Act.WriteUnhealthy(ctx, policy, unhealthy)
	switch answer.Code {
	case answers.Accepted, answers.Gone:
		if answer.Code == answers.Accepted {
			r.Gatherer.Policies.Observe(changed) // nothing wakes the controller when a cache that lags behind shows what it wrote
		}
		return reconcile.Result{RequeueAfter: after}, nil
	case answers.Conflict: // it is another by now
		return reconcile.Result{RequeueAfter: pause}, nil
	case answers.RefusedByBudget, answers.RefusedForNow, answers.SeveralBudgets, answers.Denied, answers.NamespaceTerminating, answers.Forbidden,
		answers.Unavailable, answers.Rejected:
	}
	return reconcile.Result{}, fmt.Errorf("writing which members are unhealthy: %s", cmp.Or(answer.Message, string(answer.Code)))
}
