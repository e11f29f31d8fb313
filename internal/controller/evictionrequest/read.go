package evictionrequest

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
)

// whole gathers what is known of a target.
func (s *reconciler) whole(ctx context.Context, ref evictionrequest.Ref) (evictionrequest.Target, error) {
	t, err := s.facts(ctx, ref)
	if err != nil || ref.Name == "" {
		return t, err
	}
	t.Requests, err = targets.RequestsOf(ctx, s.client, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name})
	return t, err
}

// facts gathers what is known of a target, but for its requests. One that names no pod has no facts but the time.
func (s *reconciler) facts(ctx context.Context, ref evictionrequest.Ref) (evictionrequest.Target, error) {
	t := evictionrequest.Target{Now: time.Now().Truncate(time.Second), Ref: ref, Version: s.options.Version, Governed: s.options.Governed}
	if ref.Name == "" {
		return t, nil
	}
	var err error
	if t.Evictions, err = targets.EvictionsOf(ctx, s.client, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}); err != nil {
		return t, err
	}
	if t.Pod, err = s.pod(ctx, ref); err != nil {
		return t, err
	}
	if t.Pod == nil || ended(t.Pod) {
		t.EndedSince = s.endings.since(ref.UID, t.Now)
	}
	return t, nil
}

// pod returns the pod, or nil when it was seen gone: by the watch, or else by asking the server, since a cache that
// lags must not make a pod disappear.
func (s *reconciler) pod(ctx context.Context, ref evictionrequest.Ref) (*corev1.Pod, error) {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	for _, reader := range []client.Reader{s.client, s.live} {
		pod := &corev1.Pod{}
		err := reader.Get(ctx, key, pod)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading pod %s: %w", key, err)
		}
		if err == nil && pod.UID == ref.UID {
			return pod, nil
		}
		if s.endings.known(ref.UID) {
			return nil, nil
		}
	}
	return nil, nil
}

func (s *reconciler) requestKeys(ctx context.Context, namespace, pod string) []reconcile.Request {
	all, err := targets.RequestsOf(ctx, s.client, client.ObjectKey{Namespace: namespace, Name: pod})
	return keys(ctx, all, err)
}

func (s *reconciler) evictionKeys(ctx context.Context, namespace, pod string) []reconcile.Request {
	all, err := targets.EvictionsOf(ctx, s.client, client.ObjectKey{Namespace: namespace, Name: pod})
	return keys(ctx, all, err)
}

func keys[T client.Object](ctx context.Context, all []T, err error) []reconcile.Request {
	if err != nil {
		log.FromContext(ctx).Error(err, "an event is lost")
	}
	found := make([]reconcile.Request, len(all))
	for i, o := range all {
		found[i] = reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
	}
	return found
}
