package join_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

// TestSmallNode takes some 320 of 400 MiB: less than the node's 100 MiB eviction threshold is left, but no limit is
// reached at which the kernel would kill. There is one pod only, as which of several goes first is up to the kubelet: in
// its first seconds it evicts the one whose use it has not measured yet.
func TestSmallNode(t *testing.T) {
	l := testlab.Get(t)
	node := l.StartRealNodes(t, join.Options{Count: 1, Memory: resource.MustParse("400Mi")})[0]
	ns := l.Namespace(t)

	object, err := l.Client().CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := object.Status.Allocatable.Memory(), resource.MustParse("300Mi"); got.Cmp(want) != 0 {
		t.Errorf("%s has %s allocatable for pods, want %s", node.Name, got, want.String())
	}

	greedy := realPod(t, "greedy", "-memory-mib=310", "-rate-mib=200")
	if _, err := l.Client().CoreV1().Pods(ns).Create(t.Context(), greedy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	testlab.WaitFor(t, l.Pods(ns), "the pod to be evicted by its node", func(all []*corev1.Pod) bool {
		return len(all) == 1 && evictedByNode(all[0])
	})
}

// evictedByNode looks at the condition: a pod that ends with exit code 0 on SIGTERM gets the phase Succeeded and no
// reason, evicted or not.
func evictedByNode(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			return c.Reason == corev1.PodReasonTerminationByKubelet
		}
	}
	return false
}

func realPod(t *testing.T, name string, args ...string) *corev1.Pod {
	t.Helper()
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: testlab.RealPod(t, args...)}
}
