package expiry

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
)

// whileHeld is how often a request is looked at that stands while its maker does not ask again, where no event need come of its end.
const whileHeld = 30 * time.Second

// ofCaller withdraws what admission asked for in the name of a caller that has given up.
func (s *reconciler) ofCaller(ctx context.Context, request *api.EvictionRequest, pod *corev1.Pod) (reconcile.Result, error) {
	facts, node, err := s.facts(ctx, pod)
	if err != nil {
		return reconcile.Result{}, err
	}
	admitted, ok := policycache.AdmissionRequest(request, node)
	if !ok || admitted.Empties {
		return reconcile.Result{}, nil
	}
	now := s.Now()
	withdraw, until := admitted.Expire(facts, now)
	switch {
	case withdraw != nil:
		return s.giveUp(ctx, *withdraw)
	case until.IsZero():
		return reconcile.Result{RequeueAfter: whileHeld}, nil
	}
	return reconcile.Result{RequeueAfter: until.Sub(now)}, nil
}

// facts are what is known of a pod, which may be nil, and of its node.
func (s *reconciler) facts(ctx context.Context, pod *corev1.Pod) (*snapshot.Pod, *snapshot.Node, error) {
	if pod == nil {
		return nil, nil, nil
	}
	seen, err := read(ctx, s.client, []string{pod.Spec.NodeName})
	if err != nil {
		return nil, nil, err
	}
	return observe.PodFacts(pod), seen.Node(pod.Spec.NodeName), nil
}

// giveUp withdraws a request. One that its caller has just renewed is looked at again.
func (s *reconciler) giveUp(ctx context.Context, withdraw eviction.Action) (reconcile.Result, error) {
	switch answer := s.Act.Do(ctx, withdraw); {
	case answer.Code == answers.Conflict:
		return reconcile.Result{RequeueAfter: lostRace}, nil
	case answer.Code != answers.Accepted:
		return reconcile.Result{}, fmt.Errorf("withdrawing the request of %s for pod %s: %s: %s", withdraw.Requester, withdraw.Pod, answer.Code, answer.Message)
	}
	return reconcile.Result{}, nil
}
