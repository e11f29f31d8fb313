package cgroup2

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"usher.sh/usher/internal/agent/machine"
	"usher.sh/usher/lab/kernel"
)

// slack is what the kernel may be behind with its counts, and what it takes itself for what a process takes.
const slack = 3 * mib

// near reports whether a count has grown by so much.
func near(before, after, grown int64) bool {
	return max(after-before-grown, before+grown-after) <= slack
}

func grew(t *testing.T, what string, before, after, by machine.Memory) {
	t.Helper()
	if !near(before.Usage, after.Usage, by.Usage) || !near(before.WorkingSet, after.WorkingSet, by.WorkingSet) || !near(before.Resident, after.Resident, by.Resident) {
		t.Errorf("%s: before %+v, after %+v, want it grown by %+v", what, before, after, by)
	}
}

// reading is all that the machine says of a pod's memory.
type reading struct {
	pod, container, pods, all machine.Memory
	available, podsAvailable  int64
}

func (n *node) read(t *testing.T, p pod) reading {
	t.Helper()
	r := reading{pod: n.use(t, p).Memory}
	container, err := n.machine.Container(p.uid, p.id)
	if err != nil {
		t.Fatal(err)
	}
	amount, pods, err := n.machine.PodsMemory()
	if err != nil {
		t.Fatal(err)
	}
	machines, all, err := n.machine.Memory()
	if err != nil {
		t.Fatal(err)
	}
	r.container, r.pods, r.all = container, pods, all
	r.available, r.podsAvailable = machines.Available, amount.Available
	return r
}

// TestMemory: what a process takes appears, by its kind, on the account of its container, its pod, all pods and the machine.
func TestMemory(t *testing.T) {
	t.Parallel()
	if !kernel.Inside(t) {
		return
	}
	inBoth(t, func(t *testing.T, n node) {
		p, other := n.pod(t, 1), n.pod(t, 2)
		put(t, filepath.Join(n.folder, "memory.max"), strconv.Itoa(400*mib))
		put(t, filepath.Join(p.folder, "memory.max"), strconv.Itoa(200*mib))
		w := startWorker(t, p.container)
		startWorker(t, other.container).do(t, "take 8")
		othersBefore := n.use(t, other)

		for _, tt := range []struct {
			name, task                  string
			usage, workingSet, resident int64 // by what each grows
			kernels                     bool  // none of it is in the account of the machine, which is of processes and files
		}{
			{"memory of its own", "take 48", 48 * mib, 48 * mib, 48 * mib, false},
			{"files of memory", "keep 16", 16 * mib, 16 * mib, 0, false},
			{"what the kernel keeps for it", "pipe 16", 16 * mib, 16 * mib, 0, true},
			{"files that were read once", "read " + onDisk(t, "read", 32*mib), 32 * mib, 0, 0, false},
			{"files that are mapped", "map " + onDisk(t, "mapped", 24*mib), 24 * mib, 0, 24 * mib, false},
		} {
			before := n.read(t, p)
			w.do(t, tt.task)
			after := n.read(t, p)
			grown := machine.Memory{Usage: tt.usage, WorkingSet: tt.workingSet, Resident: tt.resident}
			grew(t, tt.name+", container", before.container, after.container, grown)
			grew(t, tt.name+", pod", before.pod, after.pod, grown)
			grew(t, tt.name+", all pods", before.pods, after.pods, grown)
			if !near(before.podsAvailable, after.podsAvailable, -grown.WorkingSet) {
				t.Errorf("%s: of the pods' %d are left %d", tt.name, before.podsAvailable, after.podsAvailable)
			}
			if tt.kernels {
				grown = machine.Memory{}
			}
			grew(t, tt.name+", machine", before.all, after.all, grown)
			if !near(before.available, after.available, -grown.WorkingSet) {
				t.Errorf("%s: of the machine's %d are left %d", tt.name, before.available, after.available)
			}
		}
		if got := n.use(t, other); !near(othersBefore.Memory.Usage, got.Memory.Usage, 0) {
			t.Errorf("another pod: before %+v, after %+v", othersBefore, got)
		}
		last := n.read(t, p)
		if got := [3]int64{last.pods.Limit, last.pod.Limit, last.container.Limit}; got != [3]int64{400 * mib, 200 * mib, 0} {
			t.Errorf("limits of all pods, the pod and the container: %v", got)
		}
	})
}

// TestMemoryComesBack: what a pod took is free after its end.
func TestMemoryComesBack(t *testing.T) {
	t.Parallel()
	if !kernel.Inside(t) {
		return
	}
	inBoth(t, func(t *testing.T, n node) {
		p := n.pod(t, 1)
		w := startWorker(t, p.container)
		before := n.read(t, p)
		w.do(t, "take 64")
		if killed, err := n.machine.Kill(p.uid); killed != 1 || err != nil {
			t.Fatalf("killed %d, %v", killed, err)
		}
		_ = w.Wait()
		after := n.read(t, p)
		for _, left := range []int64{
			after.pod.Usage - before.pod.Usage, after.pods.WorkingSet - before.pods.WorkingSet, after.all.Usage - before.all.Usage,
		} {
			if left > slack {
				t.Errorf("before %+v, after %+v", before, after)
			}
		}
	})
}

// TestThreads: it is threads that count, of a pod and of the machine.
func TestThreads(t *testing.T) {
	t.Parallel()
	if !kernel.Inside(t) {
		return
	}
	inBoth(t, func(t *testing.T, n node) {
		p := n.pod(t, 1)
		w := startWorker(t, p.container)
		// Both processes may start threads at any time, and end none.
		measure := func() (pod, left int64) {
			before := threads(t, w)
			amount, err := n.machine.PIDs()
			if err != nil {
				t.Fatal(err)
			}
			pod = n.use(t, p).PIDs
			if after := threads(t, w); pod < before || pod > after {
				t.Errorf("the pod has %d, and /proc showed %d before and %d after", pod, before, after)
			}
			return pod, amount.Available
		}
		pod, left := measure()
		w.do(t, "threads 40")
		podAfter, leftAfter := measure()
		const others = 15 // the kernel's own come and go
		if more, fewer := podAfter-pod, left-leftAfter; more < 30 || max(more-fewer, fewer-more) > others {
			t.Errorf("the pod had %d and has %d; left were %d and are %d", pod, podAfter, left, leftAfter)
		}
	})
}

// threads counts those of a worker.
func threads(t *testing.T, w *worker) int64 {
	t.Helper()
	tasks, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(w.Process.Pid), "task"))
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(tasks))
}
