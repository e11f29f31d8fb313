package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/snapshot"
)

const (
	// replaceGrace is how long the pods of a policy that has vanished stay labelled, and so refused: `kubectl replace --force`
	// deletes a policy to create it anew, and no pod is to slip through in between.
	replaceGrace = 5 * time.Second
	// cancelGrace is how long what was withdrawn gets to be cancelled, before the pod's label is off and no caller is refused.
	cancelGrace = time.Second
)

// release takes the labels off pods that no policy guards by the cache, unless one does by a read past it, which is made once for
// all pods whose time has come. It returns when to look again at those whose label stays for a moment, 0 if there are none.
func (s *reconciler) release(ctx context.Context, namespace string, pods []*snapshot.Pod, policies, audited []eviction.Declared) (next time.Duration, err error) {
	var due []*snapshot.Pod
	for _, pod := range pods {
		wait, keep := s.keeps(pod, policies, audited)
		if !keep {
			due = append(due, pod)
		}
		next = sooner(next, wait)
	}
	if len(due) == 0 {
		return next, nil
	}
	newest, err := s.newest(ctx, namespace)
	if err != nil {
		return next, err
	}
	var failed []error
	for _, pod := range due {
		wait, err := s.unlabel(ctx, pod, newest)
		failed, next = append(failed, err), sooner(next, wait)
	}
	return next, errors.Join(failed...)
}

// keeps reports whether the label of a pod that no policy guards stays for now, and for how long; 0: until something happens. A policy
// that is in mode Audit now holds its pods no longer.
func (s *reconciler) keeps(pod *snapshot.Pod, policies, audited []eviction.Declared) (wait time.Duration, keep bool) {
	label := pod.Labels[v1alpha1.PolicyLabel]
	if blind(policies, label) {
		return 0, true
	}
	if named(policies, label) == nil && named(audited, label) == nil {
		wait = max(0, s.missingPolicies.wait(missingPolicy{pod.Namespace, label}, replaceGrace, time.Now()))
	}
	return wait, wait > 0
}

// blind: the policy that a label names may claim the pod, and cannot be read.
func blind(policies []eviction.Declared, label string) bool {
	owner := named(policies, label)
	return owner != nil && owner.Policy.Blind()
}

// unlabel takes the label off a pod that none of the newest policies guards. What admission asked for in the names of callers that it
// refused is withdrawn before: with the label gone it would not be judged.
func (s *reconciler) unlabel(ctx context.Context, pod *snapshot.Pod, newest []eviction.Declared) (wait time.Duration, err error) {
	if eviction.GuardedBy(newest, pod) != "" || blind(newest, pod.Labels[v1alpha1.PolicyLabel]) {
		return replaceGrace, nil // the cache is behind
	}
	withdrawn, err := s.withdraw(ctx, pod)
	if err != nil || withdrawn > 0 {
		return cancelGrace, err
	}
	answer := s.Act.UnlabelPod(ctx, pod)
	if answer.Code == answers.Conflict {
		return replaceGrace, nil // its other labels may be new as well
	}
	return 0, accepted(answer, "labelling pod", pod.Name)
}

// newest returns the policies that can govern the pods of a namespace, by a read past the cache.
func (s *reconciler) newest(ctx context.Context, namespace string) ([]eviction.Declared, error) {
	if s.Gatherer.Policies.Reserved(namespace) {
		return nil, nil
	}
	return s.Gatherer.Newest(ctx, namespace)
}

// sooner is the earlier of two times to look again, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// named returns the policy that a label names, nil if it is not there.
func named(policies []eviction.Declared, label string) *eviction.Declared {
	for i := range policies {
		if eviction.LabelValue(policies[i].Key.Name) == label {
			return &policies[i]
		}
	}
	return nil
}

// withdraw takes back what admission asked for a pod, and returns how many requests it were.
func (s *reconciler) withdraw(ctx context.Context, pod *snapshot.Pod) (int, error) {
	requesters, err := s.admitted(ctx, pod)
	if err != nil {
		return 0, err
	}
	for _, requester := range requesters {
		answer := s.Act.Do(ctx, eviction.Action{
			Kind: eviction.Withdraw, Pod: pod.Key(), UID: pod.UID, Requester: requester, Why: "no policy governs the pod any more",
		})
		if answer.Code != answers.Accepted {
			return 0, fmt.Errorf("withdrawing the request of %s for pod %s: %s: %s", requester, pod.Name, answer.Code, answer.Message)
		}
	}
	return len(requesters), nil
}

// admitted names those in whose names admission asks for a pod.
func (s *reconciler) admitted(ctx context.Context, pod *snapshot.Pod) ([]string, error) {
	if !s.Requests {
		return nil, nil
	}
	all, err := targets.WantedOf(ctx, s.client, pod.Key())
	if err != nil {
		return nil, err
	}
	var requesters []string
	for _, request := range all {
		ref, ok := evictionrequest.RequestRef(request)
		_, made := evictionrequest.LastRequestTime(request)
		if ok && made && ref.UID == pod.UID {
			requesters = append(requesters, request.Spec.Requester)
		}
	}
	return requesters, nil
}
