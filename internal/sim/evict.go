package sim

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// evict is the eviction handler of the API server (registry/core/pod/storage
// upstream), with the checks in its order. The UID is only looked at when the pod is
// deleted: an eviction of another bearer of the name may use the budget for nothing.
func (s *Sim) evict(a drain.Action) answers.Answer {
	p := s.truth.PodNamed(a.Pod.Key())
	if p == nil {
		return answers.Answer{Code: answers.Gone, Message: fmt.Sprintf("pods %q not found", a.Pod.Name)}
	}
	if text := s.denied(p); text != "" {
		return answers.Answer{Code: answers.Denied, Message: text}
	}
	if !skipsBudget(p) {
		if refusal := s.askBudget(p); refusal != nil {
			return *refusal
		}
	}
	return s.deleteExactly(p, a)
}

// deletePod is the plain deletion, which asks no budget.
func (s *Sim) deletePod(a drain.Action) answers.Answer {
	p := s.truth.PodNamed(a.Pod.Key())
	if p == nil {
		return answers.Answer{Code: answers.Gone, Message: fmt.Sprintf("pods %q not found", a.Pod.Name)}
	}
	if text := s.denied(p); text != "" {
		return answers.Answer{Code: answers.Denied, Message: text}
	}
	return s.deleteExactly(p, a)
}

func (s *Sim) denied(p *snapshot.Pod) string {
	if s.cfg.Faults.Deny == nil {
		return ""
	}
	return s.cfg.Faults.Deny(p)
}

func (s *Sim) deleteExactly(p *snapshot.Pod, a drain.Action) answers.Answer {
	if p.UID != a.Pod.UID {
		return answers.Answer{Code: answers.Gone, Message: fmt.Sprintf(
			"the UID in the precondition (%s) does not match the UID in record (%s)", a.Pod.UID, p.UID)}
	}
	s.oracle.removed(s, p, a)
	s.terminate(p, a.Grace)
	return answers.Answer{Code: answers.Accepted}
}

// skipsBudget is canIgnorePDB upstream.
func skipsBudget(p *snapshot.Pod) bool {
	return p.Phase == corev1.PodPending || p.Finished() || p.Terminating()
}

const violates = "Cannot evict pod as it would violate the pod's disruption budget."

// askBudget returns the refusal of the pod's budget, or uses the budget and returns nil.
func (s *Sim) askBudget(p *snapshot.Pod) *answers.Answer {
	s.guards.load(p.Namespace)
	found := s.guards.of(p)
	if len(found) == 0 {
		return nil
	}
	if len(found) > 1 {
		return &answers.Answer{
			Code:    answers.SeveralBudgets,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}
	}
	b := found[0].budget
	if !p.Ready && (b.AlwaysAllow || b.Current >= b.Desired && b.Desired > 0) {
		return nil
	}
	if !b.Observed {
		return &answers.Answer{
			Code: answers.RefusedForNow, RetryAfter: 10 * time.Second,
			Message: fmt.Sprintf("%s The disruption budget %s is still being processed by the server.", violates, b.Name),
		}
	}
	if b.Allowed <= 0 {
		return &answers.Answer{Code: answers.RefusedByBudget, Message: refusalOf(b)}
	}
	s.useBudget(found[0], p)
	s.wakeGuard(found[0])
	return nil
}

func refusalOf(b *snapshot.Budget) string {
	if b.Current > b.Desired {
		return fmt.Sprintf("%s The disruption budget %s does not allow evicting pods currently", violates, b.Name)
	}
	return fmt.Sprintf("%s The disruption budget %s needs %d healthy pods and has %d currently", violates, b.Name, b.Desired, b.Current)
}

// useBudget writes the eviction into the budget's status. Where the disruption
// controller reacts at once, the entry of the pod would be gone before any watch showed it.
func (s *Sim) useBudget(g *budgetTracker, p *snapshot.Pod) {
	b := g.budget
	next := *b
	next.Allowed--
	next.BlockedSince = s.blockedSince(b, next.Allowed)
	if s.cfg.Budgets > 0 {
		next.Disrupted = maps.Clone(b.Disrupted)
		if next.Disrupted == nil {
			next.Disrupted = map[string]time.Time{}
		}
		next.Disrupted[p.Name] = s.now
	}
	s.setBudget(g, &next)
}
