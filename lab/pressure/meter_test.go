package pressure

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"usher.sh/usher/lab/realnode"
)

// amount is how much there is of something, and how much of it is free.
type amount struct{ available, capacity int64 }

// meter reads one signal of a node, apart from both kubelet and agent.
type meter func() (amount, error)

// step is how often a meter is read.
const step = time.Millisecond

// until reads until the amount is as wanted. It returns when the last reading was that was not.
func (m meter) until(ctx context.Context, wanted func(amount) bool) (time.Time, error) {
	last := time.Now()
	ticks := time.NewTicker(step)
	defer ticks.Stop()
	for {
		at := time.Now()
		got, err := m()
		if err != nil {
			return last, err
		}
		if wanted(got) {
			return last, nil
		}
		last = at
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("%d of %d is available: %w", got.available, got.capacity, context.Cause(ctx))
		case <-ticks.C:
		}
	}
}

// podsCgroup is the folder of the cgroup of all pods, in the hierarchy of memory.
func podsCgroup(node *realnode.Node) (folder string, unified bool) {
	folder = filepath.Join("/sys/fs/cgroup/memory", node.Slot().Name(), "kubepods")
	if _, err := os.Stat(folder); err == nil {
		return folder, false
	}
	return filepath.Join("/sys/fs/cgroup", node.Slot().Name(), "kubepods"), true
}

// memoryOf reads the memory of all pods of a node together: what is not in their working set.
func memoryOf(node *realnode.Node) meter {
	folder, unified := podsCgroup(node)
	limit, usage, inactive := "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
	if unified {
		limit, usage, inactive = "memory.max", "memory.current", "inactive_file"
	}
	return func() (amount, error) {
		most, err := readNumber(filepath.Join(folder, limit))
		if err != nil {
			return amount{}, err
		}
		used, err := readNumber(filepath.Join(folder, usage))
		if err != nil {
			return amount{}, err
		}
		idle, err := readField(filepath.Join(folder, "memory.stat"), inactive)
		return amount{most - max(used-idle, 0), most}, err
	}
}

// spaceOf and inodesOf read the file system of a node's kubelet.
func spaceOf(node *realnode.Node) meter {
	return func() (amount, error) {
		s, err := statfs(node)
		return amount{int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize}, err
	}
}

func inodesOf(node *realnode.Node) meter {
	return func() (amount, error) {
		s, err := statfs(node)
		return amount{int64(s.Ffree), int64(s.Files)}, err
	}
}

func statfs(node *realnode.Node) (unix.Statfs_t, error) {
	var s unix.Statfs_t
	err := unix.Statfs(fmt.Sprintf("/proc/%d/root/var/lib/kubelet", node.PID()), &s)
	return s, err
}

func readNumber(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

func readField(path, name string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}

// countKills counts the processes that the kernel has killed for want of memory, by the folder of their pod. A container's
// count goes away with its cgroup, which is why it has to be read often.
func countKills(node *realnode.Node, into map[string]int64) {
	root, unified := podsCgroup(node)
	file := "memory.oom_control"
	if unified {
		file = "memory.events.local"
	}
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil //nolint:nilerr // cgroups come and go
		}
		if n, err := readField(filepath.Join(path, file), "oom_kill"); err == nil && n > 0 {
			into[path] = n
		}
		return nil
	})
}
