package defaultresponder

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
)

type reconciler struct {
	client   client.Client
	live     client.Reader
	options  Options
	attempts *attempts
}

func (s *reconciler) reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	eviction := &api.Eviction{}
	if err := s.client.Get(ctx, key.NamespacedName, eviction); err != nil {
		s.attempts.forget(key)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !evictionrequest.Active(eviction, evictionrequest.Evictor) {
		s.attempts.forget(key)
		return reconcile.Result{}, nil
	}
	if other, ok := evictionrequest.ServedByOther(eviction, evictionrequest.Evictor, FieldManager); ok {
		log.FromContext(ctx).Info("another process reports as this responder; the eviction is left to it", "manager", other)
		return reconcile.Result{}, nil
	}
	pod, err := s.pod(ctx, eviction)
	if err != nil {
		return reconcile.Result{}, err
	}
	refused, err := s.onlyRefused(ctx, pod)
	if err != nil {
		return reconcile.Result{}, err
	}
	step := evictionrequest.PlanEvictor(eviction, pod, refused, s.attempts.of(key), time.Now())
	if step.Evict {
		return s.evict(ctx, key, eviction, pod)
	}
	return s.report(ctx, eviction, step)
}

// onlyRefused reports whether no client but those that admission has refused requests the eviction of a pod, which may be nil.
func (s *reconciler) onlyRefused(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if pod == nil {
		return false, nil
	}
	requests, err := targets.RequestsOf(ctx, s.client, client.ObjectKeyFromObject(pod))
	return evictionrequest.OnlyRefused(requests, pod.UID), err
}

// settle is how long the watch gets to deliver what an accepted eviction, or another's, has changed.
const settle = 5 * time.Second

func (s *reconciler) evict(ctx context.Context, key reconcile.Request, e *api.Eviction, pod *corev1.Pod) (reconcile.Result, error) {
	answer := s.options.Writer.Evict(ctx, client.ObjectKeyFromObject(pod), pod.UID, 0)
	now := time.Now()
	if answer.Code == answers.Accepted || answer.Code == answers.Gone {
		s.attempts.accepted(key, now)
		return reconcile.Result{RequeueAfter: settle}, nil
	}
	refused := s.attempts.refused(key, answer, now)
	log.FromContext(ctx).Info("the eviction was refused", "pod", pod.Name, "code", answer.Code, "attempt", refused.Count, "message", answer.Message)
	return s.report(ctx, e, evictionrequest.PlanEvictor(e, pod, false, refused, now))
}

func (s *reconciler) report(ctx context.Context, e *api.Eviction, step evictionrequest.EvictorStep) (reconcile.Result, error) {
	if !step.Write {
		return reconcile.Result{RequeueAfter: step.Again}, nil
	}
	patch, err := evictionrequest.ReportPatch(s.options.Version, e, step.Entry)
	if err != nil {
		return reconcile.Result{}, err
	}
	err = act.ApplyStatus(ctx, s.client, patch, FieldManager)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: settle}, nil
	}
	return reconcile.Result{RequeueAfter: step.Again}, err
}

// pod returns the target, or nil when the server said that it is gone: a cache that lags must not end an eviction.
func (s *reconciler) pod(ctx context.Context, e *api.Eviction) (*corev1.Pod, error) {
	ref, ok := evictionrequest.EvictionRef(e)
	if !ok {
		return nil, fmt.Errorf("eviction %s names no pod", e.Name)
	}
	for _, reader := range []client.Reader{s.client, s.live} {
		pod := &corev1.Pod{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, pod)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading pod %s of eviction %s: %w", ref.Name, e.Name, err)
		}
		if err == nil && pod.UID == ref.UID {
			return pod, nil
		}
	}
	return nil, nil
}

// ofPod enqueues the evictions of a pod. Only its end matters, of which its shutting down is the beginning.
func (s *reconciler) ofPod(ctx context.Context, o client.Object) []reconcile.Request {
	all, err := targets.EvictionsOf(ctx, s.client, client.ObjectKeyFromObject(o))
	if err != nil {
		log.FromContext(ctx).Error(err, "an event of a pod is lost", "pod", o.GetName())
	}
	found := make([]reconcile.Request, len(all))
	for i, e := range all {
		found[i].NamespacedName = client.ObjectKeyFromObject(e)
	}
	return found
}
