package machine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Use is what one pod uses.
type Use struct {
	Memory Memory
	// PIDs are threads; -1 if the machine does not count them.
	PIDs int64
}

// Pod returns what a pod uses, or ErrNoCgroup.
func (m *Machine) Pod(uid types.UID) (Use, error) {
	cgroup, err := m.Cgroup(uid)
	if err != nil {
		return Use{}, err
	}
	return m.useOf(cgroup)
}

func (m *Machine) useOf(cgroup string) (Use, error) {
	memory, err := m.memoryOf(cgroup)
	if errors.Is(err, fs.ErrNotExist) {
		return Use{}, ErrNoCgroup // it ended meanwhile
	}
	if err != nil {
		return Use{}, err
	}
	use := Use{Memory: memory, PIDs: -1}
	if m.tree.pids == "" {
		return use, nil
	}
	pids, err := readNumber(filepath.Join(m.tree.pidsFolder(cgroup), "pids.current"))
	if err == nil {
		use.PIDs = pids
	}
	return use, nil
}

// Container returns what a container of a pod uses, by the ID that the pod's status gives ("containerd://…"), or
// ErrNoCgroup.
func (m *Machine) Container(pod types.UID, id string) (Memory, error) {
	cgroup, err := m.Cgroup(pod)
	if err != nil {
		return Memory{}, err
	}
	_, id, ok := strings.Cut(id, "://")
	if !ok || id == "" || strings.ContainsAny(id, "/.") {
		return Memory{}, ErrNoCgroup
	}
	folders, err := os.ReadDir(m.tree.memoryFolder(cgroup))
	if err != nil {
		return Memory{}, ErrNoCgroup
	}
	for _, folder := range folders {
		if folder.IsDir() && isContainer(folder.Name(), id) {
			return m.memoryOf(filepath.Join(cgroup, folder.Name()))
		}
	}
	return Memory{}, ErrNoCgroup
}

// isContainer reports whether a cgroup in a pod's is that of a container. Most runtimes put their name before the ID. CRI-O
// puts the container's monitor beside the container: crio-conmon-ID.
func isContainer(cgroup, id string) bool {
	runtime, ok := strings.CutSuffix(strings.TrimSuffix(cgroup, ".scope"), id)
	return ok && (runtime == "" || strings.HasSuffix(runtime, "-") && !strings.HasSuffix(runtime, "-conmon-"))
}
