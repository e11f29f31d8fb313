package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// brief pods have to end within a second, so that what keeps them is known as soon.
func brief(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(1)) }

const release = `{"metadata":{"finalizers":null}}`

func TestFinalizerHoldsATerminatingPod(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Pod(t, s.ns, "kept", podOn(s.node), brief, func(p *corev1.Pod) { p.Finalizers = []string{"lab.usher.sh/backup"} })
	s.settled(t, 1)
	t.Cleanup(func() { // what a failed test leaves would keep its namespace for ever
		_, _ = s.Client().CoreV1().Pods(s.ns).Patch(context.WithoutCancel(t.Context()), "kept", types.MergePatchType, []byte(release), metav1.PatchOptions{})
	})
	p := start(t, "drain", s.node, "--force")
	contains(t, p.blocked(t, "HeldByFinalizers").Message, "lab.usher.sh/backup")
	s.patchPod(t, "kept", release)
	p.wait(t).want(t, 0, "drained")
}

func TestLostNodeKeepsItsPods(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Pod(t, s.ns, "a", podOn(s.node), brief)
	s.settled(t, 1)
	s.NodeLost(t, s.node)
	p := start(t, "drain", s.node, "--force")
	b := p.blocked(t, "NodeUnreachable")
	contains(t, b.Message, "does not answer")
	contains(t, b.Remedy, "out-of-service")
	if err := s.Client().CoreV1().Pods(s.ns).Delete(t.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	p.wait(t).want(t, 0, "drained")
}

func TestNodeDeletedInTheMiddle(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Pod(t, s.ns, "a", podOn(s.node), annotated("lab.usher.sh/stuck", "true"))
	s.settled(t, 1)
	p := start(t, "drain", s.node, "--force")
	p.reached(t, "a", "terminating")
	if err := s.Client().CoreV1().Nodes().Delete(t.Context(), s.node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	contains(t, p.blocked(t, "NodeUnreachable").Message, "its node is gone")
	if err := s.Client().CoreV1().Pods(s.ns).Delete(t.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	f := p.wait(t).want(t, 0, "drained")
	if len(f.End.Nodes) != 1 || f.End.Nodes[0].State != "missing" {
		t.Errorf("the summary does not say that the node was deleted: %+v", f.End.Nodes)
	}
}
