package testlab

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/lab/nodes"
)

// SetReady makes a running pod ready or unready, and waits until it is seen so.
func (l *Lab) SetReady(tb testing.TB, ns, pod string, ready bool) {
	tb.Helper()
	l.annotatePod(tb, ns, pod, nodes.Ready, map[bool]string{true: "true", false: "false"}[ready])
	WaitFor(tb, l.Pods(ns), "pod "+pod+" to change its readiness", func(all []*corev1.Pod) bool {
		for _, p := range all {
			if p.Name == pod {
				return PodReady(p) == ready
			}
		}
		return false
	})
}

// Recover makes pods ready again that SetReady made unready, and does not wait until they are seen so: as soon as the
// budget has its fill, a drain may evict those that are not ready yet. Pods that are gone are passed over.
func (l *Lab) Recover(tb testing.TB, ns string, pods ...string) {
	tb.Helper()
	for _, pod := range pods {
		if err := l.tryAnnotatePod(tb.Context(), ns, pod, nodes.Ready, "true"); !apierrors.IsNotFound(err) {
			check(tb, "annotating pod "+pod, err)
		}
	}
}

// Stick keeps a pod Terminating once it is deleted, as when its kubelet is gone, until Unstick.
func (l *Lab) Stick(tb testing.TB, ns, pod string) {
	tb.Helper()
	l.annotatePod(tb, ns, pod, nodes.Stuck, "true")
}

// Unstick lets a pod end that Stick kept.
func (l *Lab) Unstick(tb testing.TB, ns, pod string) {
	tb.Helper()
	l.annotatePod(tb, ns, pod, nodes.Stuck, "false")
}

// NodeLost makes a node's Ready condition Unknown and keeps all pods on it from ever ending, as when the machine is
// gone. The taints follow from the controller-manager.
func (l *Lab) NodeLost(tb testing.TB, node string) {
	tb.Helper()
	pods, err := l.client.CoreV1().Pods("").List(tb.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	check(tb, "listing the pods of node "+node, err)
	for _, p := range pods.Items {
		l.Stick(tb, p.Namespace, p.Name)
	}
	_, err = l.client.CoreV1().Nodes().Patch(tb.Context(), node, types.MergePatchType, annotation(nodes.Ready, "false"), metav1.PatchOptions{})
	check(tb, "annotating node "+node, err)
	WaitFor(tb, l.AllNodes(), "node "+node+" to be lost", func(all []*corev1.Node) bool {
		for _, n := range all {
			if n.Name == node {
				return !nodes.Usable(n)
			}
		}
		return false
	})
}

func (l *Lab) annotatePod(tb testing.TB, ns, pod, key, value string) {
	tb.Helper()
	check(tb, "annotating pod "+pod, l.tryAnnotatePod(tb.Context(), ns, pod, key, value))
}

func (l *Lab) tryAnnotatePod(ctx context.Context, ns, pod, key, value string) error {
	_, err := l.client.CoreV1().Pods(ns).Patch(ctx, pod, types.MergePatchType, annotation(key, value), metav1.PatchOptions{})
	return err
}

func annotation(key, value string) []byte {
	patch := map[string]map[string]map[string]string{"metadata": {"annotations": {key: value}}}
	data, _ := json.Marshal(patch) // strings in maps always encode
	return data
}
