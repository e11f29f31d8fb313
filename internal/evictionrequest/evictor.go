package evictionrequest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"

	"usher.sh/usher/internal/snapshot"
)

// Attempts is what this process asked of the eviction API for one eviction, and what was answered. It may be lost: a restart
// only begins the back-off anew.
type Attempts struct {
	Count     int       // refused ones
	Answer    string    // the last refusal
	NotBefore time.Time // when to ask again
	Accepted  time.Time // when the API accepted it; zero: it did not
}

// The bounds of the back-off between two attempts.
const (
	firstBackoff = 5 * time.Second
	lastBackoff  = 10 * time.Minute
)

// Refused returns the attempts with one more refusal. A Retry-After that is longer than the back-off is honoured.
func (a Attempts) Refused(answer string, retryAfter time.Duration, now time.Time) Attempts {
	pause := lastBackoff
	if a.Count < 8 {
		pause = min(firstBackoff<<a.Count, lastBackoff)
	}
	return Attempts{Count: a.Count + 1, Answer: answer, NotBefore: now.Add(max(pause, retryAfter))}
}

// acceptedFor is how long the watch gets to deliver what an accepted eviction, or another's, has changed.
const acceptedFor = 5 * time.Second

// accepted returns for how long an eviction that the API accepted is not repeated. A second one would change the pod once more, which
// wakes everything that watches it.
func (a Attempts) accepted(now time.Time) time.Duration {
	if age := now.Sub(a.Accepted); age >= 0 && age < acceptedFor {
		return acceptedFor - age
	}
	return 0
}

// EvictorStep is what the imperative responder does next: evict, then plan again with the answer; or write its entry,
// if it must; and look again.
type EvictorStep struct {
	Evict bool
	Entry api.ResponderStatus
	Write bool
	Again time.Duration // 0: on the next change
}

// heldFor is when an eviction is looked at again that no client requests by itself.
const heldFor = 10 * time.Second

// PlanEvictor takes the imperative responder one step further. Pod is nil only when it was seen that no pod has the
// name and UID of the eviction's target. Refused says that only callers whom admission has refused request the eviction (OnlyRefused): they
// may have given up, and without a policy there is no verdict on which to serve them.
func PlanEvictor(e *api.Eviction, pod *corev1.Pod, refused bool, a Attempts, now time.Time) EvictorStep {
	if !Active(e, Evictor) {
		return EvictorStep{}
	}
	report, wait := evictorReport(pod, a, now)
	if report == nil && refused {
		report, wait = &Report{Message: "only callers that admission has refused request the eviction, and no policy governs the pod any more; " +
			"it is evicted once a client requests it with an EvictionRequest, or evicts the pod again"}, heldFor
	}
	if left := a.accepted(now); report == nil && left > 0 {
		return EvictorStep{Again: left}
	}
	if report == nil {
		return EvictorStep{Evict: true}
	}
	step := EvictorStep{}
	step.Entry, step.Write, step.Again = NextEntry(e, Evictor, *report, now)
	if wait > 0 {
		step.Again = min(step.Again, wait)
	}
	return step
}

// evictorReport returns what there is to say, and how long it stays true; nil when the pod is to be evicted now.
func evictorReport(pod *corev1.Pod, a Attempts, now time.Time) (*Report, time.Duration) {
	switch {
	case pod == nil:
		return &Report{Message: "the pod is gone", Done: true}, 0
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return &Report{Message: "the pod has ended", Done: true}, 0
	case pod.DeletionTimestamp != nil:
		return terminating(pod), 0
	}
	if why := unmovable(pod); why != "" {
		return &Report{Message: why, Done: true}, 0
	}
	if wait := a.NotBefore.Sub(now); a.Count > 0 && wait > 0 {
		return refused(a), wait
	}
	return nil, 0
}

func terminating(pod *corev1.Pod) *Report {
	return &Report{
		Message:  fmt.Sprintf("the pod is shutting down; it must be gone by %s", pod.DeletionTimestamp.UTC().Format(time.RFC3339)),
		Expected: pod.DeletionTimestamp.Time,
	}
}

func refused(a Attempts) *Report {
	return &Report{Message: fmt.Sprintf("attempt %d was refused, the next is at %s: %s",
		a.Count, a.NotBefore.UTC().Format(time.RFC3339), a.Answer)}
}

// unmovable says why the eviction API must not be asked for a pod: it would come back on the same node at once.
func unmovable(pod *corev1.Pod) string {
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return "a static pod cannot be evicted: its node's kubelet runs it from a file; remove the file on the node"
	}
	if owner := snapshot.OwnerOf(pod); owner.DaemonSet() {
		return fmt.Sprintf("a pod of a DaemonSet is not evicted: %s would start it again on the same node; change the DaemonSet, or delete the pod", owner.Name)
	}
	return ""
}
