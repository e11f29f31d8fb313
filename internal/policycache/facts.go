package policycache

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// SamePod reports whether two states of a pod are the same to policies: in all that a rule or an id may ask for.
func SamePod(before, after client.Object) bool {
	a, known := before.(*corev1.Pod)
	b, ok := after.(*corev1.Pod)
	if !known || !ok {
		return false
	}
	x, y := Facts(a), Facts(b)
	return x.UID == y.UID && x.Owner == y.Owner && x.Node == y.Node && x.Phase == y.Phase && x.Ready == y.Ready &&
		x.IP == y.IP && x.Terminating() == y.Terminating() &&
		maps.Equal(x.Labels, y.Labels) && maps.Equal(x.Annotations, y.Annotations)
}

// mostAnnotation is how long an annotation of a node may be for rules to see it, in bytes.
const mostAnnotation = 1 << 10

// NodeAnnotations returns the annotations of a node for which rules may ask. Longer ones are left out: of every node they are in the
// cache of every replica.
func NodeAnnotations(node *corev1.Node) map[string]string {
	kept := map[string]string{}
	for key, value := range node.Annotations {
		if len(value) <= mostAnnotation {
			kept[key] = value
		}
	}
	return kept
}
