package observe

import (
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// kind is what one object of the resource is called.
func (r resource) kind() string {
	for kind, reader := range readers {
		if reader.of == r {
			return kind.Kind
		}
	}
	return r.name
}

// reader turns the JSON of one kind into facts.
type reader struct {
	of   resource
	read func(text []byte) (found, error)
}

// readers are the kinds that decisions use. An autoscaler of autoscaling/v1 differs in
// its metrics only, which are not read.
var readers = map[metav1.TypeMeta]reader{
	{APIVersion: "v1", Kind: "Pod"}:                                      {pods, readPod},
	{APIVersion: "v1", Kind: "Node"}:                                     {nodes, reads(NodeFacts, (*snapshot.Cluster).SetNode, nodeTime)},
	{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}:               {budgets, reads(budgetFacts, (*snapshot.Cluster).SetBudget, budgetTime)},
	{APIVersion: "apps/v1", Kind: "ReplicaSet"}:                          {replicaSets, readsWorkload[appsv1.ReplicaSet](replicaSetFacts)},
	{APIVersion: "apps/v1", Kind: "Deployment"}:                          {deployments, readsWorkload[appsv1.Deployment](DeploymentFacts)},
	{APIVersion: "apps/v1", Kind: "StatefulSet"}:                         {statefulSets, readsWorkload[appsv1.StatefulSet](statefulSetFacts)},
	{APIVersion: "apps/v1", Kind: "DaemonSet"}:                           {daemonSets, readsWorkload[appsv1.DaemonSet](daemonSetFacts)},
	{APIVersion: "v1", Kind: "ReplicationController"}:                    {controllers, readsWorkload[corev1.ReplicationController](replicationControllerFacts)},
	{APIVersion: "batch/v1", Kind: "Job"}:                                {jobs, readsWorkload[batchv1.Job](jobFacts)},
	{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"}:      {autoscalers, reads(AutoscalerFacts, (*snapshot.Cluster).SetAutoscaler, created[*autoscalingv2.HorizontalPodAutoscaler])},
	{APIVersion: "autoscaling/v1", Kind: "HorizontalPodAutoscaler"}:      {autoscalers, reads(AutoscalerFacts, (*snapshot.Cluster).SetAutoscaler, created[*autoscalingv2.HorizontalPodAutoscaler])},
	{APIVersion: "v1", Kind: "PersistentVolumeClaim"}:                    {volumeClaims, reads(claimFacts, (*snapshot.Cluster).SetClaim, created[*corev1.PersistentVolumeClaim])},
	{APIVersion: "v1", Kind: "PersistentVolume"}:                         {volumes, reads(volumeFacts, (*snapshot.Cluster).SetVolume, created[*corev1.PersistentVolume])},
	{APIVersion: v1alpha1.GroupVersion.String(), Kind: "EvictionPolicy"}: {policies, reads(PolicyFacts, (*snapshot.Cluster).SetPolicy, created[*v1alpha1.EvictionPolicy])},
	{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment"}:          {attachments, reads(attachmentFacts, (*snapshot.Cluster).SetAttachment, created[*storagev1.VolumeAttachment])},
}

// object is a pointer to an API type.
type object[O any] interface {
	*O
	metav1.Object
}

func reads[O any, P object[O], T any](facts func(P) *T, set func(*snapshot.Cluster, *T), at func(P) time.Time) func([]byte) (found, error) {
	return func(text []byte) (found, error) {
		read, err := parse[O, P](text)
		if err != nil {
			return found{}, err
		}
		fact := facts(read)
		return found{newest: at(read), set: func(c *snapshot.Cluster) { set(c, fact) }}, nil
	}
}

func readsWorkload[O any, P object[O]](facts func(P) *snapshot.Workload) func([]byte) (found, error) {
	return reads(facts, (*snapshot.Cluster).SetWorkload, created[P])
}

func readPod(text []byte) (found, error) {
	pod, err := parse[corev1.Pod](text)
	if err != nil {
		return found{}, err
	}
	return found{newest: podTime(pod), pod: PodFacts(pod)}, nil
}

func parse[O any, P object[O]](text []byte) (P, error) {
	read := P(new(O))
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(text, read); err != nil {
		return nil, err
	}
	if read.GetName() == "" {
		return nil, errors.New("it has no metadata.name")
	}
	if read.GetUID() == "" {
		return nil, fmt.Errorf("%s has no metadata.uid: usher needs the objects as the apiserver has them, with metadata and status", read.GetName())
	}
	return read, nil
}

func created[P metav1.Object](object P) time.Time { return object.GetCreationTimestamp().Time }

func podTime(pod *corev1.Pod) time.Time {
	at := created(pod)
	for i := range pod.Status.Conditions {
		at = later(at, pod.Status.Conditions[i].LastTransitionTime)
	}
	return at
}

// nodeTime is nearly the time of the dump: a kubelet reports every few minutes.
func nodeTime(node *corev1.Node) time.Time {
	at := created(node)
	for i := range node.Status.Conditions {
		at = later(at, node.Status.Conditions[i].LastHeartbeatTime)
		at = later(at, node.Status.Conditions[i].LastTransitionTime)
	}
	return at
}

func budgetTime(budget *policyv1.PodDisruptionBudget) time.Time {
	at := created(budget)
	for i := range budget.Status.Conditions {
		at = later(at, budget.Status.Conditions[i].LastTransitionTime)
	}
	for _, evicted := range budget.Status.DisruptedPods {
		at = later(at, evicted)
	}
	return at
}

func later(at time.Time, other metav1.Time) time.Time {
	if other.After(at) {
		return other.Time
	}
	return at
}
