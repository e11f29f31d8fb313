package machine

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Amount is how much there is of something, and how much of it is free: bytes, inodes or threads.
type Amount struct {
	Available, Capacity int64
}

// Memory returns the memory of the whole machine as the kubelet counts it: what no working set holds, without the pages
// that are set aside as huge ones.
func (m *Machine) Memory() (Amount, Memory, error) {
	info, err := m.memInfo()
	if err != nil {
		return Amount{}, Memory{}, err
	}
	used, err := m.memoryOf("/")
	if err != nil {
		return Amount{}, Memory{}, err
	}
	available := max(info.total-used.WorkingSet-info.huge, 0)
	return Amount{Available: available, Capacity: available + used.WorkingSet}, used, nil
}

// Total returns the machine's memory and swap, in bytes.
func (m *Machine) Total() (memory, swap int64, err error) {
	info, err := m.memInfo()
	return info.total, info.swap, err
}

// PodsMemory returns the memory of all pods together; the capacity is 0 if nothing limits them.
func (m *Machine) PodsMemory() (Amount, Memory, error) {
	used, err := m.memoryOf(m.pods.root)
	if err != nil || used.Limit == 0 {
		return Amount{}, used, err
	}
	available := max(used.Limit-used.WorkingSet, 0)
	return Amount{Available: available, Capacity: available + used.WorkingSet}, used, nil
}

type memInfo struct{ total, swap, huge int64 }

func (m *Machine) memInfo() (memInfo, error) {
	data, err := readFile(m.proc("meminfo"))
	if err != nil {
		return memInfo{}, err
	}
	var info memInfo
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 {
			continue
		}
		var into *int64
		switch fields[0] {
		case "MemTotal:":
			into = &info.total
		case "SwapTotal:":
			into = &info.swap
		case "Hugetlb:":
			into = &info.huge
		default:
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return memInfo{}, fmt.Errorf("reading %s: %w", m.proc("meminfo"), err)
		}
		*into = kib * 1024
	}
	if info.total == 0 {
		return memInfo{}, fmt.Errorf("reading %s: it has no MemTotal", m.proc("meminfo"))
	}
	return info, nil
}

// PIDs returns how many threads may still be started: the kernel counts them, not processes.
func (m *Machine) PIDs() (Amount, error) {
	most, err := readNumber(m.proc("sys/kernel/pid_max"))
	if err != nil {
		return Amount{}, err
	}
	threads, err := readNumber(m.proc("sys/kernel/threads-max"))
	if err != nil {
		return Amount{}, err
	}
	most = min(most, threads)
	name := m.proc("loadavg")
	data, err := readFile(name)
	if err != nil {
		return Amount{}, err
	}
	fields := strings.Fields(string(data))
	if len(fields) < 4 {
		return Amount{}, fmt.Errorf("reading %s: %d fields", name, len(fields))
	}
	_, text, _ := strings.Cut(fields[3], "/")
	running, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return Amount{}, fmt.Errorf("reading %s: %w", name, err)
	}
	return Amount{Available: max(most-running, 0), Capacity: most}, nil
}

// FileSystem is the space of one, in bytes, and its inodes.
type FileSystem struct {
	Bytes, Inodes Amount
}

// NodeFS returns the file system of the kubelet's directory.
func (m *Machine) NodeFS() (FileSystem, error) { return fileSystem(m.hostPath(m.options.KubeletDir)) }

// ImageFS returns the file system of the container runtime's images; false if no runtime's folder was found.
func (m *Machine) ImageFS() (FileSystem, bool, error) {
	if m.images == "" {
		return FileSystem{}, false, nil
	}
	found, err := fileSystem(m.images)
	return found, true, err
}

// DedicatedImages reports whether images lie on another file system than the kubelet's directory. Images and writable
// layers are taken to lie together: only the runtime could report otherwise.
func (m *Machine) DedicatedImages() (bool, error) {
	if m.images == "" {
		return false, nil
	}
	var images, kubelet unix.Stat_t
	if err := unix.Stat(m.images, &images); err != nil {
		return false, fmt.Errorf("looking at %s: %w", m.images, err)
	}
	if err := unix.Stat(m.hostPath(m.options.KubeletDir), &kubelet); err != nil {
		return false, fmt.Errorf("looking at %s: %w", m.hostPath(m.options.KubeletDir), err)
	}
	return images.Dev != kubelet.Dev, nil
}

// fileSystem counts blocks that only root may take as taken, like the kubelet.
func fileSystem(folder string) (FileSystem, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return FileSystem{}, fmt.Errorf("looking at the file system of %s: %w", folder, err)
	}
	size := s.Frsize
	return FileSystem{
		Bytes:  Amount{Available: int64(s.Bavail) * size, Capacity: int64(s.Blocks) * size},
		Inodes: Amount{Available: int64(s.Ffree), Capacity: int64(s.Files)},
	}, nil
}
