package kubelet

import (
	"slices"
	"testing"

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
		p := g.pod(0, traits{podLevel: true, qosInStatus: true})
		memory := int64(1 + g.IntN(40))
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			if theirs, ours := qos.GetContainerOOMScoreAdjust(p, &c, memory), pressure.OOMScoreAdj(shown(p), &c, memory); theirs != ours {
				t.Errorf("%s on a machine of %d: the kubelet sets %d, Usher says %d", c.Name, memory, theirs, ours)
			}
		}
	})
}
