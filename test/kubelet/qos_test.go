package kubelet

import (
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/qos"

	"usher.sh/usher/internal/nodepressure"
)

func TestQoSClass(t *testing.T) {
	t.Parallel()
	each(t, *inputs, func(t *testing.T, g gen) {
		p := g.pod(0, traits{podLevel: true, diskRequests: true, qosInStatus: true})
		if theirs, ours := v1qos.GetPodQOS(p), nodepressure.QoSOf(p); theirs != ours {
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

// Whether a container is started again that the OOM killer has ended: the kubelet looks at its exit code.
func TestRestart(t *testing.T) {
	t.Parallel()
	each(t, *inputs, func(t *testing.T, g gen) {
		p := g.pod(0, traits{})
		ours := map[string]corev1.RestartPolicy{}
		for _, o := range oomOf(p, 1) {
			ours[o.Container] = o.Restart
		}
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			ended := &kubecontainer.PodStatus{ContainerStatuses: []*kubecontainer.Status{{Name: c.Name, State: kubecontainer.ContainerStateExited, ExitCode: 137}}}
			if theirs := kubecontainer.ShouldContainerBeRestarted(logr.Discard(), &c, p, ended); theirs != (ours[c.Name] != corev1.RestartPolicyNever) {
				t.Errorf("%s: the kubelet starts it again %v, Usher says %s", c.Name, theirs, ours[c.Name])
			}
		}
	})
}

// scores are Usher's, by container.
func scores(p *corev1.Pod, memory int64) map[string]int {
	out := map[string]int{}
	for _, o := range oomOf(p, memory) {
		out[o.Container] = o.Adj
	}
	return out
}

// oomOf is Usher's account of a pod's containers. All use something, since init containers that do not are left out.
func oomOf(p *corev1.Pod, memory int64) []nodepressure.OOM {
	pod := nodepressure.PodOf(shown(p))
	for i := range pod.Containers {
		pod.Containers[i].Usage = 1
	}
	return nodepressure.OOMScores(nodepressure.OOM137, nodepressure.Node{Memory: memory}, []nodepressure.Pod{pod})
}
