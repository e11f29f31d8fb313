package kubelet

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/kubelet/allocation"

	"usher.sh/usher/internal/nodepressure"
)

// population is the pods of a node: as the API has them, and as the kubelet ranks and scores them.
type population struct{ api, kubelet []*corev1.Pod }

// resize lets some pods ask for other resources. The kubelet's own account of what is allocated makes of them what it goes
// by; their status is what it reports.
func (g gen) resize(t *testing.T, pods []*corev1.Pod, tr traits) population {
	t.Helper()
	if !tr.resized {
		return population{pods, pods}
	}
	allocated := allocation.NewInMemoryManager(logr.Discard(), nil, nil, nil, nil, nil, nil)
	out := population{}
	for _, p := range pods {
		if _, mirror := shown(p).Annotations[corev1.MirrorPodAnnotationKey]; mirror || !g.chance(40) {
			out.api, out.kubelet = append(out.api, p), append(out.kubelet, p)
			continue
		}
		if err := allocated.SetAllocatedResources(logr.Discard(), p); err != nil {
			t.Fatal(err)
		}
		asked := p.DeepCopy()
		if asked.Status.QOSClass == "" {
			asked.Status.QOSClass = v1qos.ComputePodQOS(p) // the apiserver sets it when a pod is created
		}
		g.ask(asked)
		theirs, _ := allocated.UpdatePodFromAllocation(asked)
		g.report(asked, theirs)
		out.api, out.kubelet = append(out.api, throughJSON(t, asked)), append(out.kubelet, theirs)
	}
	return out
}

// ask changes what a pod requests of cpu and memory; requests may be added, and cannot be taken away.
func (g gen) ask(p *corev1.Pod) {
	lists := []*corev1.ResourceRequirements{}
	for i := range p.Spec.InitContainers {
		lists = append(lists, &p.Spec.InitContainers[i].Resources)
	}
	for i := range p.Spec.Containers {
		lists = append(lists, &p.Spec.Containers[i].Resources)
	}
	if p.Spec.Resources == nil && g.chance(20) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: g.quantity()}}
	}
	if p.Spec.Resources != nil {
		lists = append(lists, p.Spec.Resources)
	}
	for _, r := range lists {
		if !g.chance(60) {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		maps.Copy(r.Requests, g.list(70, corev1.ResourceCPU, corev1.ResourceMemory))
	}
}

// report writes into a pod's status what its kubelet reports of what it has allocated (kubelet_pods.go): of the pod as a
// whole, and of every container that was created. Whether it is pending, and why, changes nothing.
func (g gen) report(p, allocated *corev1.Pod) {
	p.Status.AllocatedResources = resourcehelper.PodRequests(allocated, resourcehelper.PodResourcesOptions{})
	p.Status.Resources = &corev1.ResourceRequirements{}
	if allocated.Spec.Resources != nil {
		p.Status.Resources = allocated.Spec.Resources.DeepCopy()
	}
	statuses := func(containers []corev1.Container) []corev1.ContainerStatus {
		var out []corev1.ContainerStatus
		for i := range containers {
			out = append(out, corev1.ContainerStatus{
				Name: containers[i].Name, AllocatedResources: containers[i].Resources.Requests, Resources: containers[i].Resources.DeepCopy(),
			})
		}
		return out
	}
	p.Status.InitContainerStatuses, p.Status.ContainerStatuses = statuses(allocated.Spec.InitContainers), statuses(allocated.Spec.Containers)
	pending := func(reason string) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason}}
	}
	p.Status.Conditions = oneOf(g, nil, pending(corev1.PodReasonDeferred), pending(corev1.PodReasonInfeasible),
		[]corev1.PodCondition{{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue}})
}

// throughJSON is an object as it comes from the apiserver: what is empty and may be left out is gone.
func throughJSON(t *testing.T, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A pod whose containers were not created has its allocation in the status of the whole alone, and is ranked by it.
func TestRankingBeforeContainersAreCreated(t *testing.T) {
	t.Parallel()
	each(t, *inputs/10, func(t *testing.T, g gen) {
		tr := traits{podLevel: true, resized: true}
		pods, found := g.node(t, 2+g.IntN(6), tr)
		for _, p := range pods.api {
			p.Status.InitContainerStatuses, p.Status.ContainerStatuses = nil, nil
		}
		rankMemoryPressure(pods.kubelet, lookUp(found))
		ours := nodepressure.Rank(nodepressure.OrderKubelet, nodepressure.MemoryAvailable, nodepressure.Node{}, measured(t, pods.api, found))
		sameOrder(t, pods.kubelet, ours)
	})
}
