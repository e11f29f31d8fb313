package policy

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/governed"
)

// undoPatience is how long the deletion of a policy waits for its preparations to be undone.
const undoPatience = 10 * time.Minute

// hold keeps a policy from vanishing while there are preparations that only it remembers, but not for ever. While somebody
// wants a pod gone it lets go of nothing: the responder holds the policy before it begins a preparation.
func (s *shell) hold(ctx context.Context, f *facts) error {
	policy, err := s.Gatherer.Book.Policy(ctx, client.ObjectKeyFromObject(f.policy))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	outstanding := len(policy.Status.Preparations) > 0
	if outstanding && f.givenUp(policy) {
		s.warn(policy, "UndoGivenUp", "the policy goes although its system still has to take back: %s; see to it there", steps(policy))
		outstanding = false
	}
	if f.wanted && !outstanding && policy.DeletionTimestamp == nil {
		return nil
	}
	answer := s.Act.HoldPolicy(ctx, policy, outstanding)
	if answer.Code == drain.Conflict {
		return s.Gatherer.Refresh(ctx, client.ObjectKeyFromObject(policy))
	}
	return accepted(answer, "holding policy", policy.Name)
}

// givenUp: a namespace that is being deleted takes the members' system with it, or at least its pods.
func (f *facts) givenUp(policy *v1alpha1.EvictionPolicy) bool {
	deleted := policy.DeletionTimestamp
	return deleted != nil && (f.ending || policy.Spec.Suspend || f.now.Sub(deleted.Time) > undoPatience)
}

func steps(policy *v1alpha1.EvictionPolicy) string {
	names := make([]string, len(policy.Status.Preparations))
	for i := range policy.Status.Preparations {
		names[i] = policy.Status.Preparations[i].Name + " of " + policy.Status.Preparations[i].Member
	}
	return strings.Join(names, ", ")
}

func (s *shell) warn(policy *v1alpha1.EvictionPolicy, reason, note string, args ...any) {
	s.events.Eventf(policy, nil, corev1.EventTypeWarning, reason, "Tidy", "%s", governed.EventNote(fmt.Sprintf(note, args...)))
}
