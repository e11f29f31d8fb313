package lostnode

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// wait is a step that passes by itself; zero: it is looked at again only when something happens.
func (s *step) wait(at v1alpha1.FenceStep, message string, next time.Time) {
	s.enter(at)
	s.work(message)
	s.next.NextLook = next
}

// stall is a step that may need a person; it is looked at again after that time, 0: only when something happens.
func (s *step) stall(at v1alpha1.FenceStep, message string, again time.Duration) {
	s.enter(at)
	s.say(metav1.ConditionFalse, metav1.ConditionFalse, metav1.ConditionTrue, string(at), message)
	if again > 0 {
		s.next.NextLook = s.Now.Add(again)
	}
}

func (s *step) work(message string) {
	s.say(metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionFalse, string(s.status.Step), message)
}

func (s *step) settle(reason, message string) {
	s.say(metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionFalse, reason, message)
}

func (s *step) say(ready, reconciling, stalled metav1.ConditionStatus, reason, message string) {
	SetConditions(&s.status.Conditions, s.Fence.Generation, s.Now, reason, message, ready, reconciling, stalled)
}

// SetConditions sets what kstatus reads, all three with the same words.
func SetConditions(conditions *[]metav1.Condition, generation int64, now time.Time, reason, message string, ready, reconciling, stalled metav1.ConditionStatus) {
	for _, c := range []struct {
		kind   string
		status metav1.ConditionStatus
	}{{v1alpha1.ConditionReady, ready}, {v1alpha1.ConditionReconciling, reconciling}, {v1alpha1.ConditionStalled, stalled}} {
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: c.kind, Status: c.status, Reason: reason, Message: text.Line(message), ObservedGeneration: generation, LastTransitionTime: *stamp(now),
		})
	}
}
