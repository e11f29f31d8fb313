package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// killRounds bounds how often a cgroup is looked through: its processes may start others while it is.
const killRounds = 100

// ErrOwnPod says that the pod is the one that this process runs in.
var ErrOwnPod = errors.New("this process runs in that pod")

// Kill ends all processes of a pod at once with SIGKILL and returns how many it met; with cgroup v2 the kernel does not
// count them, and it is how many there were before. The kubelet may restart containers afterwards.
func (m *Machine) Kill(uid types.UID) (int, error) {
	cgroup, err := m.Cgroup(uid)
	if err != nil {
		return 0, err
	}
	own, err := m.surelyOwn()
	if err != nil {
		return 0, err
	}
	if within(own, cgroup) {
		return 0, ErrOwnPod
	}
	if m.tree.unified {
		return m.killUnified(cgroup)
	}
	return m.killEach(cgroup)
}

func (m *Machine) killUnified(cgroup string) (int, error) {
	before, err := m.processes(cgroup)
	if err != nil {
		return 0, err
	}
	name := filepath.Join(m.tree.memoryFolder(cgroup), "cgroup.kill")
	err = os.WriteFile(name, []byte("1"), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return m.killEach(cgroup) // older than Linux 5.14, or gone
	}
	if err != nil {
		return 0, fmt.Errorf("killing by %s: %w", name, err)
	}
	return len(before), nil
}

// killEach kills one process after the other until none is met that was not killed yet. It does not wait until they have
// ended: giving back what they held takes the kernel a while.
func (m *Machine) killEach(cgroup string) (int, error) {
	killed := map[int]bool{}
	for range killRounds {
		all, err := m.processes(cgroup)
		if err != nil {
			return len(killed), err
		}
		before := len(killed)
		if err := m.killAll(cgroup, all, killed); err != nil || len(killed) == before {
			return len(killed), err
		}
	}
	return len(killed), fmt.Errorf("processes of %s are started faster than they can be killed: %d were", cgroup, len(killed))
}

// killAll kills those that were not killed yet, and notes them.
func (m *Machine) killAll(cgroup string, all []int, killed map[int]bool) error {
	for _, pid := range all {
		if killed[pid] {
			continue
		}
		hit, err := m.killOne(cgroup, pid)
		if err != nil {
			return err
		}
		if hit {
			killed[pid] = true
		}
	}
	return nil
}

// killOne takes hold of a process before it looks where it is: its number may meanwhile be that of another.
func (m *Machine) killOne(cgroup string, pid int) (bool, error) {
	if pid <= 0 {
		return false, errNoNumbers
	}
	handle, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("taking hold of process %d: %w", pid, err)
	}
	defer unix.Close(handle)
	inside, err := m.holds(cgroup, pid)
	if err != nil || !inside {
		return false, err
	}
	err = unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return false, fmt.Errorf("killing process %d: %w", pid, err)
	}
	return true, nil
}

// processes lists the processes of a cgroup and all below it; one that is gone has none. With v2, some cgroups hold threads
// only and cannot be asked: their processes are listed further up.
func (m *Machine) processes(cgroup string) ([]int, error) {
	var all []int
	err := filepath.WalkDir(m.tree.memoryFolder(cgroup), func(folder string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return ignoreGone(err)
		}
		data, err := readFile(filepath.Join(folder, "cgroup.procs"))
		for field := range strings.FieldsSeq(string(data)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return fmt.Errorf("reading the processes of %s: %w", folder, err)
			}
			all = append(all, pid)
		}
		if errors.Is(err, unix.EOPNOTSUPP) {
			return nil
		}
		return ignoreGone(err)
	})
	return all, err
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// holds reports whether a process is in a cgroup or below it; one that is gone is not.
func (m *Machine) holds(cgroup string, pid int) (bool, error) {
	data, err := readFile(m.proc(path.Join(strconv.Itoa(pid), "cgroup")))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && m.ofMemory(fields[1]) && within(fields[2], cgroup) {
			return true, nil
		}
	}
	return false, nil
}

// ofMemory reports whether a line of /proc/PID/cgroup is about the hierarchy that is read here.
func (m *Machine) ofMemory(controllers string) bool {
	if m.tree.unified {
		return controllers == ""
	}
	for name := range strings.SplitSeq(controllers, ",") {
		if name == "memory" {
			return true
		}
	}
	return false
}

func within(path, cgroup string) bool {
	return path == cgroup || strings.HasPrefix(path, cgroup+"/")
}
