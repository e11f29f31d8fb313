package policy

import (
	"context"
	"fmt"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/lifecycle"
	"usher.sh/usher/internal/snapshot"
)

const (
	// replaceGrace is how long the pods of a policy that has vanished stay labelled, and so refused: `kubectl replace --force`
	// deletes a policy to create it anew, and nobody is to slip through in between.
	replaceGrace = 5 * time.Second
	// cancelGrace is how long what was withdrawn gets to be cancelled, before the pod's label is off and nobody is refused.
	cancelGrace = time.Second
)

// release lets go of a pod that no policy claims any more; it is looked at again after a while where something has to happen
// first, and 0 says that the label can go now or stays for good. What admission asked for in the names of callers that it
// refused is withdrawn: with the label gone nobody would judge it.
func (s *shell) release(ctx context.Context, pod *snapshot.Pod, policies []eviction.Declared) (wait time.Duration, keep bool, err error) {
	label := pod.Labels[v1alpha1.PolicyLabel]
	owner := named(policies, label)
	if owner != nil && owner.Policy.Blind() {
		return 0, true, nil // it may claim the pod, and cannot be read
	}
	if owner == nil {
		if wait := s.absences.wait(pod.Namespace, label, time.Now()); wait > 0 {
			return wait, true, nil
		}
	}
	withdrawn, err := s.withdraw(ctx, pod)
	if err != nil || withdrawn > 0 {
		return cancelGrace, true, err
	}
	return 0, false, nil
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
func (s *shell) withdraw(ctx context.Context, pod *snapshot.Pod) (int, error) {
	requesters, err := s.admitted(ctx, pod.Namespace, pod.UID)
	if err != nil {
		return 0, err
	}
	for _, requester := range requesters {
		answer := s.Act.Do(ctx, eviction.Action{
			Kind: eviction.Withdraw, Pod: pod.Key(), UID: pod.UID, Requester: requester, Why: "no policy governs the pod any more",
		})
		if answer.Code != drain.Accepted {
			return 0, fmt.Errorf("withdrawing the request of %s for pod %s: %s: %s", requester, pod.Name, answer.Code, answer.Message)
		}
	}
	return len(requesters), nil
}

// admitted names those in whose names admission asks for a pod.
func (s *shell) admitted(ctx context.Context, namespace string, pod types.UID) ([]string, error) {
	if !s.Requests {
		return nil, nil
	}
	var list api.EvictionRequestList
	if err := s.client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing eviction requests: %w", err)
	}
	var requesters []string
	for i := range list.Items {
		request := &list.Items[i]
		ref, ok := lifecycle.RequestRef(request)
		_, made := lifecycle.AskedAt(request)
		if ok && made && ref.UID == pod && request.DeletionTimestamp == nil && request.Spec.Intent == api.EvictionRequestIntentEviction {
			requesters = append(requesters, request.Spec.Requester)
		}
	}
	return requesters, nil
}
