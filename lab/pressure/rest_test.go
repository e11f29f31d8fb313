package pressure

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

const (
	residents = 100
	// starting is what so many pods may take, on a machine that has other work too.
	starting = 15 * time.Minute
	// settling is what an agent takes to settle down before it is measured, and resting for how long it is.
	settling = 40 * time.Second
	resting  = time.Minute
)

// BenchmarkAtRest measures what the agent costs on a node of 100 pods while nothing is short. It takes minutes.
func BenchmarkAtRest(t *testing.B) {
	l := testlab.Get(t)
	s := storm{name: "rest", node: join.Options{Count: 1}, thresholds: hardMemory(250)}
	for i := range residents {
		s.pods = append(s.pods, resident{name: fmt.Sprintf("pod-%d", i)})
	}
	st := s.settle(t, l, l.StartRealNodes(t, s.node)[0])
	ctx, cancel := context.WithTimeout(t.Context(), starting)
	defer cancel()
	err := await.Until(ctx, l.Pods(st.space), func(all []*corev1.Pod) bool {
		ready := slices.DeleteFunc(slices.Clone(all), func(p *corev1.Pod) bool { return !testlab.PodReady(p) })
		return len(ready) == residents
	})
	if err != nil {
		t.Fatalf("waiting for the pods to be ready: %v", err)
	}
	a := startAgent(t, l, st.node, s.thresholds)
	<-time.After(settling)
	pid := a.cmd.Process.Pid
	before, begin := processorTime(t, pid), time.Now()
	<-time.After(resting)
	used, took := processorTime(t, pid)-before, time.Since(begin)
	fmt.Printf("\nagent at rest with %d pods: %d MB resident (at most %d MB), %.2f %% of a core\n", residents,
		statusMB(t, pid, "VmRSS:"), statusMB(t, pid, "VmHWM:"), 100*used.Seconds()/took.Seconds())
}

// processorTime is what a process has used so far.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	const tick = 10 * time.Millisecond // of the kernel's counts, on all machines that run real nodes
	var sum time.Duration
	for _, field := range fields[12:14] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(n) * tick
	}
	return sum
}

func statusMB(t testing.TB, pid int, name string) int {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == name {
			kib, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return kib * 1024 / 1e6
		}
	}
	t.Fatalf("no %s of process %d", name, pid)
	return 0
}
