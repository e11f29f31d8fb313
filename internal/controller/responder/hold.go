package responder

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
)

// hold makes a policy wait, should it be deleted, before a preparation is begun for it: only the policy remembers what is to
// be taken back. It returns what can be done now; nothing is ready while everything has to be looked at anew first. Who
// refuses to have the policy held keeps the pod where it is, and is named.
func (s *reconciler) hold(ctx context.Context, policy *v1alpha1.EvictionPolicy, step eviction.StepResult) (_ eviction.StepResult, ready bool, err error) {
	if policy == nil || !begins(step.Actions) || holds(policy) {
		return step, true, nil
	}
	key := client.ObjectKeyFromObject(policy)
	answer := s.Act.HoldPolicy(ctx, policy, true)
	if answer.Code == answers.Accepted || answer.Code == answers.Conflict {
		return step, false, s.Gatherer.Refresh(ctx, key)
	}
	log.FromContext(ctx).Info("the policy cannot be held", "policy", key, "code", answer.Code, "message", answer.Message)
	step.Actions = withoutSteps(step.Actions)
	for i := range step.Actions {
		if report := &step.Actions[i].Report; step.Actions[i].Kind == eviction.Tell {
			report.Message += "; nothing is prepared, because policy " + policy.Name + " cannot be held while it is (finalizer " +
				act.UndoFinalizer + "): " + answer.Message
		}
	}
	step.NextLook = s.Gatherer.Now().Add(afterRefusal)
	return step, true, nil
}

func begins(actions []eviction.Action) bool {
	return slices.ContainsFunc(actions, func(a eviction.Action) bool { return a.Kind == eviction.Begin })
}

func withoutSteps(actions []eviction.Action) []eviction.Action {
	return slices.DeleteFunc(actions, func(a eviction.Action) bool {
		return a.Kind == eviction.Begin || a.Kind == eviction.Prepare
	})
}

func holds(policy *v1alpha1.EvictionPolicy) bool {
	return slices.Contains(policy.Finalizers, act.UndoFinalizer)
}
