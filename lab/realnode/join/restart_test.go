package join_test

import (
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/lab/testlab"
)

// TestRestart kills a node's first process, and starts the node again: its pods are the same, and their containers others.
func TestRestart(t *testing.T) {
	l := testlab.Get(t)
	node := l.RealNodes(t, 1)[0]
	ns := l.Namespace(t)
	startWeb(t, l, ns, 1)
	before := l.WaitReady(t, ns, web, 1)[0]
	if err := syscall.Kill(node.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := node.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	var after *corev1.Pod
	testlab.WaitFor(t, l.Pods(ns), "another container of the pod", func(all []*corev1.Pod) bool {
		at := slices.IndexFunc(all, func(p *corev1.Pod) bool {
			return p.UID == before.UID && testlab.PodReady(p) && p.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID
		})
		if at >= 0 {
			after = all[at]
		}
		return at >= 0
	})
	get(t, after, "/")
}
