package responder

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
)

// carryOut does what was decided, and returns when to look again.
func (s *reconciler) carryOut(ctx context.Context, input eviction.Input, step eviction.StepResult) (time.Duration, error) {
	key := input.Pod.Key()
	refused, answer := s.Act.DoAll(ctx, step.Actions)
	switch {
	case answer.Code == answers.Accepted:
		if step.Evicts() {
			s.attempts.accept(key, input.Pod.UID, input.Now)
		}
		return s.next(step, answer.RetryAfter), nil
	case answer.Code == answers.Conflict && refused.Policy.Name == "": // of the Eviction, which is read anew
		return soon, nil
	case answer.Code == answers.Conflict:
		return soon, s.Gatherer.Refresh(ctx, refused.Policy, refused.Version)
	case refused.Kind == eviction.Evict && answer.Code == answers.Gone:
		return lostRace, nil
	case refused.Kind == eviction.Evict:
		return s.refused(ctx, input, step, answer)
	}
	log.FromContext(ctx).Info("not carried out", "action", refused.Kind, "pod", key, "code", answer.Code, "message", answer.Message)
	if refused.Kind == eviction.Prepare {
		return s.next(step, 0), nil // the next step reads what the system replied
	}
	return s.stuck(ctx, input, refused, answer)
}

// afterRefusal is when a write is tried again that was refused: it will hardly be accepted sooner.
const afterRefusal = 10 * time.Second

// stuck says that nothing goes on, and why: without a word the eviction would look forgotten, and be taken from Usher.
func (s *reconciler) stuck(ctx context.Context, input eviction.Input, refused eviction.Action, answer answers.Answer) (time.Duration, error) {
	message := fmt.Sprintf("Usher cannot write down that %s, so nothing goes on; tried again in %s: %s: %s",
		refused.Why, afterRefusal, answer.Code, answer.Message)
	said := s.Act.Do(ctx, eviction.Action{Kind: eviction.Respond, Pod: input.Pod.Key(), UID: input.Pod.UID, Report: eviction.Report{Message: message}})
	if said.Code != answers.Accepted {
		return 0, fmt.Errorf("%s for pod %s: %s: %s", refused.Kind, input.Pod.Key(), answer.Code, answer.Message)
	}
	return afterRefusal, nil
}

// next is when to look again if nothing happens: when the decision says so, in time for the next heartbeat, and when a word is due that was
// held back, 0 for none.
func (s *reconciler) next(step eviction.StepResult, held time.Duration) time.Duration {
	next := evictionrequest.Beat
	if held > 0 {
		next = min(next, held)
	}
	if step.NextLook.IsZero() {
		return next
	}
	return min(next, max(soon, step.NextLook.Sub(s.Gatherer.Now())))
}

// refused takes the permit back of a pod whose eviction the apiserver has refused, says why, and waits. An eviction that
// was not answered may be under way: its permit ends by itself.
func (s *reconciler) refused(ctx context.Context, input eviction.Input, step eviction.StepResult, answer answers.Answer) (time.Duration, error) {
	key := input.Pod.Key()
	wait := max(s.attempts.pause(key), answer.RetryAfter)
	message := fmt.Sprintf("%s, and the eviction API refuses: %s; asked again in %s", step.Verdict.WhyItGoes(), answer.Message, wait.Round(time.Second))
	log.FromContext(ctx).Info("the eviction was refused", "pod", key, "code", answer.Code, "message", answer.Message)
	if answer.Code != answers.Unavailable {
		if err := s.revokePermit(ctx, input, step); err != nil {
			return 0, err
		}
	}
	said := s.Act.Do(ctx, eviction.Action{
		Kind: eviction.Respond, Pod: key, UID: input.Pod.UID, Report: eviction.Report{Message: message},
	})
	if said.Code != answers.Accepted {
		return 0, fmt.Errorf("reporting on pod %s: %s: %s", key, said.Code, said.Message)
	}
	return wait, nil
}

// revokePermit looks at the policy anew, because the permit was just written into it.
func (s *reconciler) revokePermit(ctx context.Context, input eviction.Input, step eviction.StepResult) error {
	at := slices.IndexFunc(step.Actions, func(a eviction.Action) bool { return a.Kind == eviction.Permit })
	if at < 0 {
		return nil // its role has nothing written down
	}
	permit := step.Actions[at]
	judged := slices.IndexFunc(input.Policies, func(p eviction.Declared) bool { return p.Key == permit.Policy })
	if judged < 0 {
		return nil
	}
	policy, err := s.Gatherer.Policies.Policy(ctx, permit.Policy)
	if err != nil {
		return err
	}
	settle, ok := eviction.RevokePermit(s.Gatherer.Policies.Declared(policy), input.Policies[judged].Status, permit.Status, input.Pod.UID, s.Gatherer.Now())
	if !ok {
		return nil
	}
	answer := s.Act.Do(ctx, settle)
	if answer.Code == answers.Conflict {
		return s.Gatherer.Refresh(ctx, permit.Policy, settle.Version) // the permit ends by itself, at the latest
	}
	if answer.Code != answers.Accepted {
		return fmt.Errorf("taking back the permit of pod %s: %s: %s", input.Pod.Name, answer.Code, answer.Message)
	}
	return nil
}
