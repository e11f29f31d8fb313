package observe

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcehelper "k8s.io/component-helpers/resource"

	"usher.sh/usher/internal/snapshot"
)

// PodFacts returns what decisions know of a pod. The facts share maps and slices
// with the object, which must not be changed afterwards.
func PodFacts(pod *corev1.Pod) *snapshot.Pod {
	facts := &snapshot.Pod{
		Namespace:       pod.Namespace,
		Name:            pod.Name,
		UID:             pod.UID,
		ResourceVersion: pod.ResourceVersion,
		Node:            pod.Spec.NodeName,
		Labels:          pod.Labels,
		IP:              pod.Status.PodIP,
		Hostname:        pod.Spec.Hostname,
		Owner:           snapshot.OwnerOf(pod),
		Phase:           pod.Status.Phase,
		Created:         pod.CreationTimestamp.Time,
		Grace:           snapshot.GraceOf(pod),
		Finalizers:      pod.Finalizers,
		PriorityClass:   pod.Spec.PriorityClassName,
		EmptyDirs:       emptyDirs(pod),
		Claims:          claims(pod),
		Requests:        requests(pod),
		NodeSelector:    pod.Spec.NodeSelector,
		NodeAffinity:    requiredNodeAffinity(pod),
		Tolerations:     pod.Spec.Tolerations,
		SpreadHosts:     spreadsOverHosts(pod),
		DeletionCost:    pod.Annotations[snapshot.CostAnnotation],
		CostMark:        pod.Annotations[snapshot.CostMarkAnnotation],
	}
	if pod.DeletionTimestamp != nil {
		facts.Deletion = pod.DeletionTimestamp.Time
	}
	if pod.Spec.Priority != nil {
		facts.Priority = *pod.Spec.Priority
	}
	_, facts.Mirror = pod.Annotations[corev1.MirrorPodAnnotationKey]
	facts.Order, facts.OrderInvalid = order(pod.Annotations)
	setReadiness(facts, pod)
	return facts
}

func emptyDirs(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].EmptyDir != nil {
			names = append(names, pod.Spec.Volumes[i].Name)
		}
	}
	return names
}

// claims names the claims of a pod. The claim of a generic ephemeral volume has no
// name in the pod; the controller that makes it calls it "<pod>-<volume>".
func claims(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		switch {
		case volume.PersistentVolumeClaim != nil:
			names = append(names, volume.PersistentVolumeClaim.ClaimName)
		case volume.Ephemeral != nil:
			names = append(names, pod.Name+"-"+volume.Name)
		}
	}
	return names
}

// requests is what the scheduler counts: the larger of the running containers and
// each init container, sidecars, overhead and pod-level requests included.
func requests(pod *corev1.Pod) snapshot.Resources {
	list := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return snapshot.Resources{MilliCPU: list.Cpu().MilliValue(), Memory: list.Memory().Value(), Pods: 1}
}

// spreadsOverHosts reports whether the pod refuses a node that has one of its kind.
func spreadsOverHosts(pod *corev1.Pod) bool {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.PodAntiAffinity == nil {
		return false
	}
	terms := affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	return slices.ContainsFunc(terms, func(term corev1.PodAffinityTerm) bool {
		return term.TopologyKey == corev1.LabelHostname && ownNamespace(&term, pod.Namespace) && selects(term.LabelSelector, pod.Labels)
	})
}

// ownNamespace reports whether a term looks at the pod's own namespace. A namespace
// selector is taken to select it: the labels of namespaces are not watched, and
// the other answer could promise a place that does not exist.
func ownNamespace(term *corev1.PodAffinityTerm, namespace string) bool {
	if term.NamespaceSelector != nil {
		return true
	}
	return len(term.Namespaces) == 0 || slices.Contains(term.Namespaces, namespace)
}

func selects(selector *metav1.LabelSelector, set map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(set))
}

func order(annotations map[string]string) (value int, invalid bool) {
	text, ok := annotations[snapshot.OrderAnnotation]
	if !ok {
		return 0, false
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		return 0, true
	}
	return value, false
}

// requiredNodeAffinity returns what every node of the pod must match beside its node selector, nil where it asks for nothing.
func requiredNodeAffinity(pod *corev1.Pod) *corev1.NodeSelector {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}
