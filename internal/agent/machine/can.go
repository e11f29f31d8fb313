package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// CanKill says why pods cannot be killed here; nil if they can.
func (m *Machine) CanKill() error {
	if err := unix.Kill(1, 0); errors.Is(err, unix.EPERM) {
		return errNotRoot
	}
	if _, err := m.surelyOwn(); err != nil {
		return err
	}
	if m.tree.unified {
		if err := unix.Access(m.PodsFolder(), unix.W_OK); err != nil {
			return fmt.Errorf("writing to %s: %w", m.PodsFolder(), err)
		}
	}
	pids, err := m.processes(m.pods.root)
	if err == nil && slices.Min(append(pids, 1)) <= 0 {
		err = errNoNumbers
	}
	return err
}

var (
	errNotRoot   = errors.New("processes of others cannot be signalled: run it as root")
	errNoNumbers = errors.New("processes of the host have no numbers here: in a pod, set hostPID")
	errOwnView   = errors.New("this process has cgroups or processes of its own view, and cannot determine which processes it kills: run it in the host's namespaces (in a pod: privileged, with hostPID)")
)

// surelyOwn returns this process's own cgroup, if that is seen to have it.
func (m *Machine) surelyOwn() (string, error) {
	cgroup, err := m.ownCgroup()
	if err != nil {
		return "", fmt.Errorf("finding this process's own cgroup: %w", err)
	}
	data, err := readFile(filepath.Join(m.tree.memoryFolder(cgroup), "cgroup.procs"))
	if err != nil || !slices.Contains(strings.Fields(string(data)), strconv.Itoa(os.Getpid())) {
		return "", errOwnView
	}
	if apart, err := m.apart(); err != nil || apart {
		return "", errors.Join(errOwnView, err)
	}
	return cgroup, nil
}

// apart reports whether this process is in a pod and sees no processes but that pod's: the first that it sees is one of them.
// Those of others are then missing from their cgroups, with v1 without a trace.
func (m *Machine) apart() (bool, error) {
	pod, err := m.Cgroup(m.Own())
	if errors.Is(err, ErrNoCgroup) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return m.holds(pod, 1)
}

func (m *Machine) ownCgroup() (string, error) {
	data, err := readFile(m.proc("self/cgroup"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && m.ofMemory(fields[1]) {
			return fields[2], nil
		}
	}
	return "", errors.New("it is in none of the hierarchy of memory")
}

// Own returns the UID of the pod that this process runs in, "" if it is in none or that is not known.
func (m *Machine) Own() types.UID {
	cgroup, err := m.ownCgroup()
	if err != nil || !within(cgroup, m.pods.root) {
		return ""
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(cgroup, m.pods.root), "/")
	for element := range strings.SplitSeq(rest, "/") {
		if m.pods.systemd {
			// No dash is left in a UID, and each name begins with those around it.
			name := strings.TrimSuffix(element, ".slice")
			if uid, ok := strings.CutPrefix(name[strings.LastIndex(name, "-")+1:], "pod"); ok {
				return types.UID(strings.ReplaceAll(uid, "_", "-"))
			}
		} else if uid, ok := strings.CutPrefix(element, "pod"); ok {
			return types.UID(uid)
		}
	}
	return ""
}
