package cgroup2

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/agent/machine"
	"usher.sh/usher/lab/kernel"
)

// TestRealKubelet: in the cgroups that a kubelet, containerd and runc make on v2, a pod is found, counted as the kubelet
// counts it, and killed, which the kubelet sees.
func TestRealKubelet(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes minutes: make test-all runs it")
	}
	if !kernel.Inside(t, prepareNode(t)) {
		return
	}
	enter(t, grow(t, "/system.slice/usher.service"))
	startNode(t)
	pod, id := awaitContainer(t, "the container to run", func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
	until(t, "the pod to take its memory", func() bool { return tookMemory(t) })
	taken := time.Now()
	m, err := machine.Open(machine.Options{CgroupRoot: "/lab"})
	if err != nil {
		t.Fatal(err)
	}
	theirs := int64(awaitStats(t, taken))
	use, err := m.Pod(pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the kubelet counts %d, the agent %+v", theirs, use)
	if used := use.Memory.WorkingSet; used < 40*mib || used > 60*mib || !near(theirs, used, 0) || use.Memory.Limit != 100*mib || use.PIDs < 2 {
		t.Errorf("the pod took 40 MiB, of which the kubelet counts %d and the agent %+v", theirs, use)
	}
	container, err := m.Container(pod.UID, id)
	if err != nil || container.WorkingSet > use.Memory.WorkingSet || container.WorkingSet < 40*mib {
		t.Errorf("the container: %+v, %v", container, err)
	}
	if all, _, err := m.PodsMemory(); err != nil || all.Capacity == 0 {
		t.Errorf("all pods: %+v, %v; want the limit that the kubelet has set", all, err)
	}
	if err := m.CanKill(); err != nil {
		t.Error(err)
	}
	if killed, err := m.Kill(pod.UID); killed < 2 || err != nil {
		t.Errorf("killed %d, %v; want the container's process and the sandbox's", killed, err)
	}
	awaitContainer(t, "the kubelet to see the end of it", func(s corev1.ContainerStatus) bool {
		return s.State.Running == nil || s.ContainerID != id
	})
}
