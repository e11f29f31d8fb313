package responder

import (
	"strings"
	"sync"

	"usher.sh/usher/internal/act"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

// eventDeduper remembers what the last event about a pod said, so that a step that is taken every few seconds does not make an event
// each time.
type eventDeduper struct {
	mu   sync.Mutex
	last map[snapshot.Key]string
}

func newEventDeduper() *eventDeduper { return &eventDeduper{last: map[snapshot.Key]string{}} }

// changed reports whether a text differs from the last one about the pod.
func (t *eventDeduper) changed(pod snapshot.Key, text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last[pod] == text {
		return false
	}
	t.last[pod] = text
	return true
}

func (t *eventDeduper) forget(pod snapshot.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, pod)
}

// recordEvent makes an event on the pod when what is done for it, or what keeps it, has changed.
func (s *reconciler) recordEvent(pod *corev1.Pod, step eviction.StepResult) {
	kind, reason, action, key, text := describe(step)
	if reason == "" || !s.podEvents.changed(client.ObjectKeyFromObject(pod), reason+key) {
		return
	}
	s.events.Eventf(pod, nil, kind, reason, act.EventAction(action, key), "%s", act.EventNote(text))
}

// recordNodeEvent makes an event on the pod's node when what keeps the pod there has changed, and when it leaves.
func (s *reconciler) recordNodeEvent(pod *corev1.Pod, step eviction.StepResult) {
	node := act.EventNode(pod)
	kind, reason, key, text := describeForNode(client.ObjectKeyFromObject(pod), step)
	if node == nil || reason == "" || !s.nodeEvents.changed(client.ObjectKeyFromObject(pod), reason+key) {
		return
	}
	s.events.Eventf(node, pod, kind, reason, act.EventAction("Evict", key), "%s", act.EventNote(text))
}

// describeForNode words a step for those who look at the node. A preparation is nothing to them: the pod stays until it is
// done.
func describeForNode(pod snapshot.Key, step eviction.StepResult) (kind, reason, key, text string) {
	if step.Evicts() {
		return corev1.EventTypeNormal, act.PodLeaves, "", "pod " + pod.String() + " is being evicted"
	}
	if step.Verdict.Answer == eviction.Allowed || len(step.Verdict.Blockers) == 0 {
		return "", "", "", ""
	}
	return corev1.EventTypeWarning, act.PodStays, act.EventWhy(step.Verdict.Blockers),
		"pod " + pod.String() + " is wanted gone and stays: " + messages(step.Verdict.Blockers)
}

func messages(blockers []eviction.Blocker) string {
	texts := make([]string, len(blockers))
	for i := range blockers {
		texts[i] = blockers[i].Message
	}
	return strings.Join(texts, "\n")
}

// describe words a step. The key is what makes it another one: messages count what is still to do, and so change all the
// time, reasons do not.
func describe(step eviction.StepResult) (kind, reason, action, key, text string) {
	for _, a := range step.Actions {
		switch a.Kind {
		case eviction.Evict:
			return corev1.EventTypeNormal, "Evicting", "Evict", "", orElse(a.Why, step.Verdict.WhyItGoes())
		case eviction.Empty:
			if step.Empties() {
				return corev1.EventTypeNormal, "Emptied", "Empty", "", a.Why
			}
		case eviction.Prepare:
			return corev1.EventTypeNormal, "Preparing", "Prepare", a.Step.Name, a.Step.Name + ": " + orElse(a.Step.Message, a.Why)
		default:
		}
	}
	if step.Verdict.Answer == eviction.Allowed || len(step.Verdict.Blockers) == 0 {
		return "", "", "", "", ""
	}
	return corev1.EventTypeWarning, "EvictionBlocked", "Evict", act.EventWhy(step.Verdict.Blockers), messages(step.Verdict.Blockers)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
