package evictionrequest

import (
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// outcome is what has become of an eviction.
type outcome int

const (
	awaiting outcome = iota
	invalid
	canceled
	exhausted
	deleted
	terminal
)

func (o outcome) ended() bool { return o == deleted || o == terminal }

// verdict is what the two conditions say about an outcome. Both are always written.
type verdict struct {
	failed, evicted             metav1.ConditionStatus
	failedReason, evictedReason api.EvictionConditionReason
	message                     string
}

func (o outcome) verdict() verdict {
	switch o {
	case invalid:
		return failure(api.EvictionConditionReasonEvictionInvalid, "")
	case canceled:
		return failure(api.EvictionConditionReasonCanceledDueToNoRequesters, "no requester wants the pod evicted any more")
	case exhausted:
		return failure(api.EvictionConditionReasonNoFurtherResponder,
			"every responder has ended and the pod is still there; see status.responders for what each of them said")
	case deleted:
		return success(api.EvictionConditionReasonPodDeleted, "the pod is gone")
	case terminal:
		return success(api.EvictionConditionReasonPodTerminal, "the pod has ended")
	case awaiting:
	}
	return verdict{
		failed: metav1.ConditionFalse, failedReason: api.EvictionConditionReasonAwaitingEviction,
		evicted: metav1.ConditionFalse, evictedReason: api.EvictionConditionReasonAwaitingEviction,
	}
}

func failure(reason api.EvictionConditionReason, message string) verdict {
	return verdict{
		failed: metav1.ConditionTrue, failedReason: reason, message: message,
		evicted: metav1.ConditionFalse, evictedReason: api.EvictionConditionReasonEvictionFailed,
	}
}

func success(reason api.EvictionConditionReason, message string) verdict {
	return verdict{
		failed: metav1.ConditionFalse, failedReason: api.EvictionConditionReasonSucceeded, message: message,
		evicted: metav1.ConditionTrue, evictedReason: reason,
	}
}

// set writes the two conditions; those of others stay.
func (v verdict) set(conditions *[]metav1.Condition, generation int64, now time.Time) {
	for _, c := range []metav1.Condition{
		{Type: string(api.EvictionConditionFailed), Status: v.failed, Reason: string(v.failedReason)},
		{Type: string(api.EvictionConditionTargetEvicted), Status: v.evicted, Reason: string(v.evictedReason)},
	} {
		if c.Status == metav1.ConditionTrue {
			c.Message = v.message
		}
		c.ObservedGeneration, c.LastTransitionTime = generation, metav1.NewTime(now)
		meta.SetStatusCondition(conditions, c)
	}
}

// verdictOf reads back what an eviction's conditions say, for the requests that mirror them.
func verdictOf(e *api.Eviction) verdict {
	v := awaiting.verdict()
	if c := meta.FindStatusCondition(e.Status.Conditions, string(api.EvictionConditionFailed)); c != nil {
		v.failed, v.failedReason, v.message = c.Status, api.EvictionConditionReason(c.Reason), c.Message
	}
	if c := meta.FindStatusCondition(e.Status.Conditions, string(api.EvictionConditionTargetEvicted)); c != nil {
		v.evicted, v.evictedReason = c.Status, api.EvictionConditionReason(c.Reason)
		if c.Status == metav1.ConditionTrue {
			v.message = c.Message
		}
	}
	return v
}
