package act

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/text"
)

// Reasons of events on nodes.
const (
	PodStays  = "GovernedPodStays"  // a pod is wanted gone, and its system does not let it go
	PodLeaves = "GovernedPodLeaves" // its eviction or deletion is let through
)

// NotUndone is the reason of events on policies: a step is crossed out, and what may be another client's stays in force.
const NotUndone = "NotUndone"

// RecordNotUndone makes an event on a policy of each step that the actions cross out although it stays in force.
func RecordNotUndone(recorder events.EventRecorder, policy *v1alpha1.EvictionPolicy, actions []eviction.Action) {
	for i := range actions {
		for _, left := range actions[i].Left {
			recorder.Eventf(policy, nil, corev1.EventTypeWarning, NotUndone, EventAction("Undo", left.Step+"/"+left.Member), "%s",
				EventNote(left.Step+" of "+left.Member+" is not taken back: "+left.Message))
		}
	}
}

// EventNode is the pod's node for an event about it, nil if the pod has none. Its UID is its name, as in the events of
// kubelets, among which people then find it.
func EventNode(pod *corev1.Pod) *corev1.Node {
	if pod.Spec.NodeName == "" {
		return nil
	}
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName, UID: types.UID(pod.Spec.NodeName)},
	}
}

// What the API allows in an event, in bytes.
const (
	mostNote   = 1024
	mostAction = 128
)

// EventNote is text that an event may have as its note.
func EventNote(note string) string { return text.Cut(text.Lines(note), mostNote) }

// EventAction is the action that failed, and what made it fail. Recorders take two events for one, and keep the older
// note, unless reason or action differ.
func EventAction(action, why string) string {
	if why == "" {
		return action
	}
	return text.Cut(action+":"+why, mostAction)
}

// EventWhy names blockers for EventAction: what they say changes all the time, which they are does not.
func EventWhy(blockers []eviction.Blocker) string {
	names := make([]string, len(blockers))
	for i := range blockers {
		names[i] = strings.TrimSuffix(blockers[i].Reason+"/"+blockers[i].Rule, "/")
	}
	return strings.Join(names, ",")
}
