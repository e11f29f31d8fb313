package observe

import (
	"strings"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// RequestFacts returns what decisions know of an EvictionRequest.
func RequestFacts(r *api.EvictionRequest) *snapshot.Request {
	facts := &snapshot.Request{
		Namespace:       r.Namespace,
		Name:            r.Name,
		UID:             r.UID,
		ResourceVersion: r.ResourceVersion,
		Requester:       r.Spec.Requester,
		Created:         r.CreationTimestamp.Time,
		Withdrawn:       r.Spec.Intent == api.EvictionRequestIntentWithdrawn || r.DeletionTimestamp != nil,
		Deleted:         r.DeletionTimestamp != nil,
	}
	if pod := r.Spec.Target.Pod; pod != nil {
		facts.PodUID = pod.UID
	}
	failed := apimeta.FindStatusCondition(r.Status.Conditions, string(api.EvictionConditionFailed))
	if failed != nil && failed.Status == metav1.ConditionTrue && (facts.Withdrawn || !outlived(failed)) {
		facts.Failed = text.Line(failed.Reason + ": " + failed.Message)
	}
	facts.Ended = facts.Failed != "" || evictionrequest.Evicted(r.Status.Conditions)
	return facts
}

// outlived reports whether what failed is an earlier attempt, canceled for want of requesters before this request was made.
// Its Eviction stays until it is garbage collected, and the request's status shows it until the next attempt has begun.
func outlived(failed *metav1.Condition) bool {
	return failed.Reason == string(api.EvictionConditionReasonCanceledDueToNoRequesters)
}

// EvictionFacts returns what decisions know of an Eviction.
func EvictionFacts(e *api.Eviction) *snapshot.Eviction {
	facts := &snapshot.Eviction{
		Namespace:       e.Namespace,
		Name:            e.Name,
		UID:             e.UID,
		ResourceVersion: e.ResourceVersion,
		Created:         e.CreationTimestamp.Time,
		Ended:           evictionrequest.Final(e),
	}
	if pod := e.Spec.Target.Pod; pod != nil {
		facts.PodUID = pod.UID
	}
	for i := range e.Status.TargetResponders {
		name := e.Status.TargetResponders[i].Name
		entry := evictionrequest.Entry(e, name)
		if e.Status.TargetResponders[i].State != api.ResponderStateActive || entry == nil {
			continue
		}
		facts.Responder, facts.Message = name, text.Line(ptr.Deref(entry.Message, ""))
		facts.Emptied = name == evictionrequest.Responder && strings.HasPrefix(facts.Message, v1alpha1.EmptiedPrefix)
		facts.Since, facts.Expected = timeOf(entry.StartTime), timeOf(entry.ExpectedCompletionTime)
	}
	return facts
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
