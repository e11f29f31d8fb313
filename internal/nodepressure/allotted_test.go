package nodepressure

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// What a kubelet has not granted counts neither for the order nor for oom_score_adj.
func TestPodOfWithPendingResize(t *testing.T) {
	granted := func(name string, requests corev1.ResourceList) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, AllocatedResources: requests, Resources: &corev1.ResourceRequirements{Requests: requests}}
	}
	reported := func(p *corev1.Pod, total corev1.ResourceList, statuses ...corev1.ContainerStatus) *corev1.Pod {
		p.Status = corev1.PodStatus{QOSClass: corev1.PodQOSBurstable, AllocatedResources: total, ContainerStatuses: statuses}
		return p
	}
	overhead := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Overhead = list("", "64Mi", "")
		return p
	}
	type known struct {
		Requests Requests
		Adj      int // of the first container, on a machine of 8Gi
	}
	for name, test := range map[string]struct {
		give *corev1.Pod
		want known
	}{
		"more for the pod as a whole": {
			reported(withOwn(apiPod(container("a", list("1", "", ""), nil)), list("1", "4Gi", ""), nil), list("1", "512Mi", ""), granted("a", list("1", "", ""))),
			known{Requests{Memory: 512 * mi, PodMemory: true}, 938},
		},
		"… with overhead, which the status includes": {
			overhead(reported(withOwn(apiPod(container("a", list("1", "", ""), nil)), list("1", "4Gi", ""), nil), list("1", "576Mi", ""), granted("a", list("1", "", "")))),
			known{Requests{Memory: 576 * mi, PodMemory: true}, 938},
		},
		"a first request for the pod as a whole": {
			reported(withOwn(apiPod(container("a", list("1", "512Mi", ""), nil)), list("1", "4Gi", ""), nil), list("1", "512Mi", ""), granted("a", list("1", "512Mi", ""))),
			known{Requests{Memory: 512 * mi}, 938},
		},
		"granted and not carried out": {
			reported(withOwn(apiPod(container("a", list("1", "", ""), nil)), list("1", "4Gi", ""), nil), list("1", "4Gi", ""), granted("a", list("1", "", ""))),
			known{Requests{Memory: 4 * gi, PodMemory: true}, 500},
		},
		"a container's first request for memory": {
			reported(apiPod(container("a", list("1", "4Gi", "1Mi"), nil)), list("1", "", "1Mi"), granted("a", list("1", "", "1Mi"))),
			known{Requests{Disk: mi}, 999},
		},
		"a container's first request": {
			reported(apiPod(container("a", list("1", "4Gi", ""), nil), container("b", list("1", "1Gi", ""), nil)), list("1", "1Gi", ""), granted("a", nil), granted("b", list("1", "1Gi", ""))),
			known{Requests{Memory: gi}, 999},
		},
		"a pod that was granted nothing": {
			func() *corev1.Pod {
				p := reported(withOwn(apiPod(container("a", nil, nil)), list("", "4Gi", ""), nil), nil, granted("a", nil))
				p.Status.Resources = &corev1.ResourceRequirements{}
				return p
			}(),
			known{Requests{}, 999},
		},
		"a container that is not created": {
			reported(apiPod(container("a", list("1", "4Gi", ""), nil)), list("1", "512Mi", ""), corev1.ContainerStatus{Name: "a"}),
			known{Requests{Memory: 512 * mi}, 500},
		},
		"a kubelet that reports nothing": {
			reported(apiPod(container("a", list("1", "4Gi", ""), nil)), nil, corev1.ContainerStatus{Name: "a"}),
			known{Requests{Memory: 4 * gi}, 500},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := test.give.DeepCopy()
			p := PodOf(test.give)
			if diff := cmp.Diff(test.want, known{p.Requests, p.Containers[0].adj(OOM137, &p, 8*gi)}); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(before, test.give); diff != "" {
				t.Errorf("the pod that was given was changed:\n%s", diff)
			}
		})
	}
}

// A pod without a class in its status keeps the one that it was created with: its limits are not among what is reported.
func TestPodOfWithPendingResizeKeepsItsClass(t *testing.T) {
	p := apiPod(container("a", list("1", "4Gi", ""), list("1", "4Gi", "")))
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", AllocatedResources: list("1", "1Gi", "")}}
	if got := PodOf(p); got.QoS != corev1.PodQOSGuaranteed || got.Requests.Memory != gi {
		t.Errorf("class %s, requests %+v", got.QoS, got.Requests)
	}
}
