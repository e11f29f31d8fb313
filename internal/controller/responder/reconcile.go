package responder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
)

const (
	// soon is when to look again after another client has written the policy in between.
	soon = 50 * time.Millisecond
	// lostRace is how long the watch gets to deliver that a pod is gone.
	lostRace = time.Second
	// patience is how long a system may keep a worker waiting for evidence.
	patience = 5 * time.Second
)

func (s *reconciler) reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	requests, err := targets.WantedOf(ctx, s.client, key.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	evictions, err := targets.EvictionsOf(ctx, s.client, key.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(requests) == 0 && len(evictions) == 0 {
		s.waiting.forget(key.NamespacedName)
		s.attempts.forget(key.NamespacedName)
		s.podEvents.forget(key.NamespacedName)
		s.nodeEvents.forget(key.NamespacedName)
		return reconcile.Result{}, nil
	}
	s.waiting.set(key.NamespacedName, undecided)
	pod, fresh, err := s.Gatherer.Pod(ctx, key.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	var uid types.UID
	if pod != nil {
		uid = pod.UID
	}
	unsaid := s.completeForGonePods(ctx, key.NamespacedName, uid, evictions)
	if pod == nil {
		s.waiting.set(key.NamespacedName, noPolicy)
		return reconcile.Result{}, unsaid
	}
	after, err := s.serve(ctx, pod, fresh, demandFor(requests, evictions, uid))
	return reconcile.Result{RequeueAfter: after}, errors.Join(unsaid, err)
}

// completeForGonePods completes Usher's entry in the evictions of pods that are gone: another has the name now, or none. An entry that
// cannot be completed keeps no other waiting.
func (s *reconciler) completeForGonePods(ctx context.Context, pod snapshot.Key, now types.UID, evictions []*api.Eviction) error {
	var failed []error
	for _, e := range evictions {
		ref, ok := evictionrequest.EvictionRef(e)
		if !ok || ref.UID == now || !evictionrequest.Active(e, evictionrequest.Responder) {
			continue
		}
		answer := s.Act.Do(ctx, eviction.Action{
			Kind: eviction.Respond, Pod: pod, UID: ref.UID,
			Report: eviction.Report{Message: "the pod is gone", Completed: true},
		})
		if answer.Code != answers.Accepted {
			failed = append(failed, fmt.Errorf("completing eviction %s: %s: %s", e.Name, answer.Code, answer.Message))
		}
	}
	return errors.Join(failed...)
}

// serve does the next step for a pod, and returns when to look again.
func (s *reconciler) serve(ctx context.Context, pod *corev1.Pod, fresh bool, w demand) (time.Duration, error) {
	if !w.wanted {
		s.waiting.set(client.ObjectKeyFromObject(pod), noPolicy)
		return 0, nil // what was prepared is undone by the policy's controller
	}
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	input, err := s.Gatherer.Input(asking, policycache.Subject{Pod: pod, Fresh: fresh})
	if err != nil {
		return 0, err
	}
	if input.Pod.Labelled() && len(input.Policies) == 0 {
		if input.Ungoverned, err = s.Gatherer.Ungoverned(asking, pod.Namespace); err != nil {
			return 0, err
		}
	}
	claims := eviction.Claims(input.Policies, input.Pod)
	s.waiting.set(input.Pod.Key(), judge(claims))
	policy, err := s.policy(ctx, claims)
	if err != nil {
		return 0, err
	}
	in := w.input(input)
	in.Accepted = s.attempts.acceptedAt(client.ObjectKeyFromObject(pod), pod.UID)
	if policy != nil {
		in.Replies = s.Act.Replies(policy)
	}
	step := eviction.Step(in)
	if hold, first := step.Holds(); first {
		answer := s.Act.Do(ctx, hold)
		if answer.Code == answers.Accepted || answer.Code == answers.Conflict {
			return soon, s.Gatherer.Refresh(ctx, hold.Policy, hold.Version)
		}
		log.FromContext(ctx).Info("the policy cannot be held", "policy", hold.Policy, "code", answer.Code, "message", answer.Message)
		in.HoldRefused = cmp.Or(answer.Message, string(answer.Code))
		step = eviction.Step(in)
	}
	s.recordEvent(pod, step)
	s.recordNodeEvent(pod, step)
	return s.carryOut(ctx, input, step)
}

// policy returns the policy that governs a pod on which there are these claims, nil if none does or several claim it.
func (s *reconciler) policy(ctx context.Context, claims []eviction.Claim) (*v1alpha1.EvictionPolicy, error) {
	if len(claims) != 1 {
		return nil, nil
	}
	policy, err := s.Gatherer.Policies.Policy(ctx, claims[0].Policy)
	return policy, client.IgnoreNotFound(err)
}
