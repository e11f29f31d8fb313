package nodepressure

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestRequests(t *testing.T) {
	for name, test := range map[string]struct {
		give func() *corev1.Pod
		want Requests
	}{
		"sum of containers": {
			func() *corev1.Pod {
				return apiPod(container("a", list("", "1Mi", "2Mi"), nil), container("b", list("", "3Mi", "4Mi"), nil))
			},
			Requests{Memory: 4 * mi, Disk: 6 * mi},
		},
		"sidecars run beside": {
			func() *corev1.Pod {
				p := apiPod(container("a", list("", "10Mi", ""), nil))
				p.Spec.InitContainers = []corev1.Container{sidecarOf("s", list("", "5Mi", ""))}
				return p
			},
			Requests{Memory: 15 * mi},
		},
		"a large init container counts alone": {
			func() *corev1.Pod {
				p := apiPod(container("a", list("", "10Mi", ""), nil))
				p.Spec.InitContainers = []corev1.Container{container("i", list("", "50Mi", ""), nil)}
				return p
			},
			Requests{Memory: 50 * mi},
		},
		"with the sidecars before it, not those after": {
			func() *corev1.Pod {
				p := apiPod(container("a", list("", "10Mi", ""), nil))
				p.Spec.InitContainers = []corev1.Container{
					sidecarOf("before", list("", "5Mi", "")), container("i", list("", "50Mi", ""), nil), sidecarOf("after", list("", "7Mi", "")),
				}
				return p
			},
			Requests{Memory: 55 * mi},
		},
		"overhead": {
			func() *corev1.Pod {
				p := apiPod(container("a", list("", "10Mi", ""), nil))
				p.Spec.Overhead = list("", "3Mi", "9Mi")
				return p
			},
			Requests{Memory: 13 * mi}, // and no request for disk from overhead alone
		},
		"the pod's own request": {
			func() *corev1.Pod {
				p := apiPod(container("a", list("", "10Mi", "20Mi"), nil))
				p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("1", "100Mi", "")}
				return p
			},
			Requests{Memory: 100 * mi, Disk: 20 * mi, PodMemory: true}, // the kubelet forgets the disk
		},
		"cpu alone for the pod": {
			func() *corev1.Pod {
				p := apiPod(container("a", list("", "10Mi", "20Mi"), nil))
				p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("1", "", "")}
				return p
			},
			Requests{Memory: 10 * mi, Disk: 20 * mi}, // the kubelet forgets both
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := PodOf(test.give()).Requests; got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestQoS(t *testing.T) {
	both := list("1", "1Gi", "")
	for name, test := range map[string]struct {
		give *corev1.Pod
		want corev1.PodQOSClass
	}{
		"nothing":                        {apiPod(container("a", nil, nil)), corev1.PodQOSBestEffort},
		"explicit zeros":                 {apiPod(container("a", list("0", "0", ""), list("0", "0", ""))), corev1.PodQOSBestEffort},
		"disk does not count":            {apiPod(container("a", list("", "", "1Gi"), nil)), corev1.PodQOSBestEffort},
		"equal":                          {apiPod(container("a", both, both)), corev1.PodQOSGuaranteed},
		"cpu alone":                      {apiPod(container("a", list("1", "", ""), list("1", "", ""))), corev1.PodQOSBurstable},
		"limit alone":                    {apiPod(container("a", nil, both)), corev1.PodQOSBurstable},
		"one of each":                    {apiPod(container("a", both, both), container("b", nil, nil)), corev1.PodQOSBurstable},
		"below its limit":                {apiPod(container("a", list("1", "1Mi", ""), both)), corev1.PodQOSBurstable},
		"no containers":                  {apiPod(), corev1.PodQOSBestEffort},
		"init containers count":          {withInit(apiPod(container("a", both, both)), container("i", nil, nil)), corev1.PodQOSBurstable},
		"the pod's own decide":           {withOwn(apiPod(container("a", nil, nil)), both, both), corev1.PodQOSGuaranteed},
		"the pod's own, zeros":           {withOwn(apiPod(container("a", both, both)), list("0", "0", ""), nil), corev1.PodQOSBestEffort},
		"the pod's own, of another kind": {withOwn(apiPod(container("a", both, both)), list("", "", "1Gi"), nil), corev1.PodQOSGuaranteed},
	} {
		t.Run(name, func(t *testing.T) {
			if got := QoSOf(test.give); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			test.give.Status.QOSClass = "Given"
			if got := QoSOf(test.give); got != "Given" {
				t.Errorf("got %s in spite of the status", got)
			}
		})
	}
}

func withInit(p *corev1.Pod, init ...corev1.Container) *corev1.Pod {
	p.Spec.InitContainers = init
	return p
}

func withOwn(p *corev1.Pod, requests, limits corev1.ResourceList) *corev1.Pod {
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: requests, Limits: limits}
	return p
}
