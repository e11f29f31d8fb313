package governed

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// Facts returns what verdicts know of a pod: beside what a drain knows, what policies may ask for. They share maps with
// the object.
func Facts(pod *corev1.Pod) *snapshot.Pod {
	facts := observe.PodFacts(pod)
	facts.Annotations = pod.Annotations
	facts.IP = pod.Status.PodIP
	facts.Hostname = cmp.Or(pod.Spec.Hostname, pod.Name)
	return facts
}
