package kubelet

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/kubelet/qos"

	"usher.sh/usher/internal/pressure"
)

func TestQoSClass(t *testing.T) {
	t.Parallel()
	each(t, *inputs, func(t *testing.T, g gen) {
		p := g.pod(0, traits{podLevel: true, diskRequests: true, qosInStatus: true})
		if theirs, ours := v1qos.GetPodQOS(p), pressure.QoSOf(p); theirs != ours {
			t.Errorf("the kubelet says %s, Usher %s", theirs, ours)
		}
	})
}

func TestOOMScoreAdj(t *testing.T) {
	t.Parallel()
	each(t, *inputs, func(t *testing.T, g gen) {
		tr := traits{podLevel: true, qosInStatus: true, resized: true}
		pods := g.resize(t, []*corev1.Pod{g.pod(0, tr)}, tr)
		memory := int64(1 + g.IntN(40))
		ours := scores(pods.api[0], memory)
		p := pods.kubelet[0]
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			if theirs := qos.GetContainerOOMScoreAdjust(p, &c, memory); theirs != ours[c.Name] {
				t.Errorf("%s on a machine of %d: the kubelet sets %d, Usher says %d", c.Name, memory, theirs, ours[c.Name])
			}
		}
	})
}

// scores are Usher's, by container. All use something, since init containers that do not are left out.
func scores(p *corev1.Pod, memory int64) map[string]int {
	pod := pressure.PodOf(shown(p))
	for i := range pod.Containers {
		pod.Containers[i].Usage = 1
	}
	out := map[string]int{}
	for _, o := range pressure.OOMScores(pressure.Node{Memory: memory}, []pressure.Pod{pod}) {
		out[o.Container] = o.Adj
	}
	return out
}
