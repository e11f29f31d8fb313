package observe

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// setReadiness fills what the conditions say. Ready is the condition alone: a
// terminating pod can still be ready, and facts.Terminating says that it leaves.
func setReadiness(facts *snapshot.Pod, pod *corev1.Pod) {
	ready := podCondition(pod, corev1.PodReady)
	if ready != nil && ready.Status == corev1.ConditionTrue {
		facts.Ready = true
		facts.ReadySince = ready.LastTransitionTime.Time
		return
	}
	scheduled := podCondition(pod, corev1.PodScheduled)
	if scheduled != nil && scheduled.Status == corev1.ConditionFalse {
		facts.Unschedulable = scheduled.Reason == corev1.PodReasonUnschedulable
		facts.NotReadyWhy = words(scheduled.Reason, scheduled.Message)
		return
	}
	facts.NotReadyWhy = containersWhy(pod)
	if facts.NotReadyWhy == "" && ready != nil {
		facts.NotReadyWhy = words(ready.Reason, ready.Message)
	}
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// containersWhy returns what the first container that waits, or has failed, says.
func containersWhy(pod *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if why := containerWhy(&statuses[i]); why != "" {
				return statuses[i].Name + ": " + why
			}
		}
	}
	return ""
}

func containerWhy(status *corev1.ContainerStatus) string {
	state := status.State
	switch {
	// These two are on every pod that starts and say nothing about why it takes long.
	case state.Waiting != nil && (state.Waiting.Reason == "ContainerCreating" || state.Waiting.Reason == "PodInitializing"):
		return ""
	case state.Waiting != nil:
		return words(state.Waiting.Reason, state.Waiting.Message)
	case state.Terminated != nil && state.Terminated.ExitCode != 0:
		return words(state.Terminated.Reason, saidByContainer(state.Terminated.Message))
	}
	return ""
}

// mostSaid is how many bytes of a container's own words are kept.
const mostSaid = 256

// saidByContainer quotes what a container has written into its terminationMessagePath, which could be read as Usher's words.
func saidByContainer(message string) string {
	if message = text.Line(message); message == "" {
		return ""
	}
	return strconv.Quote(text.Cut(message, mostSaid))
}

// words joins a reason and a message, without anything that a terminal obeys: images, schedulers and admission have a part in them.
func words(reason, message string) string {
	reason, message = text.Line(reason), text.Line(message)
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}
