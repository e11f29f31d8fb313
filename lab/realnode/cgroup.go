package realnode

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchy is a mounted tree of cgroups: one of many with cgroup v1, the only one with v2.
type hierarchy struct {
	path    string
	unified bool // cgroup v2
}

const cgroupMount = "/sys/fs/cgroup"

// findHierarchies lists all trees in which a node's pods get cgroups.
func findHierarchies() ([]hierarchy, error) {
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("finding cgroups: %w", err)
	}
	defer mounts.Close()
	var found []hierarchy
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) < 3:
		case fields[2] == "cgroup2" && fields[1] == cgroupMount:
			return []hierarchy{{path: cgroupMount, unified: true}}, nil
		// With v1, a v2 tree without controllers may be mounted beside; runc makes cgroups there too.
		case strings.HasPrefix(fields[2], "cgroup") && strings.HasPrefix(fields[1], cgroupMount+"/"):
			found = append(found, hierarchy{path: fields[1]})
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no cgroups are mounted in %s: in a container, run it privileged", cgroupMount)
	}
	return found, nil
}

// makeCgroup makes the cgroup under which the kubelet puts its pods, in every hierarchy; the kubelet itself only
// looks whether it is there.
func makeCgroup(name string) error {
	hierarchies, err := findHierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := h.make(name); err != nil {
			return fmt.Errorf("making cgroup %s in %s: %w", name, h.path, err)
		}
	}
	return nil
}

func (h hierarchy) make(name string) error {
	folder := filepath.Join(h.path, name)
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if h.unified {
		return errors.Join(enableControllers(h.path), enableControllers(folder))
	}
	// In v1, a new cpuset allows nothing, and a process cannot enter it.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(h.path, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // another hierarchy than that of cpuset
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, file), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// enableControllers gives the children of a v2 cgroup all controllers that it has itself.
func enableControllers(folder string) error {
	has, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
	if err != nil {
		return err
	}
	var wanted strings.Builder
	for controller := range strings.FieldsSeq(string(has)) {
		wanted.WriteString("+" + controller + " ")
	}
	return os.WriteFile(filepath.Join(folder, "cgroup.subtree_control"), []byte(wanted.String()), 0o644)
}

// removeCgroup removes the cgroup and all below it, in every hierarchy. No process may be left in it.
func removeCgroup(name string) error {
	hierarchies, err := findHierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := removeTree(filepath.Join(h.path, name)); err != nil {
			return fmt.Errorf("removing cgroup %s from %s: %w", name, h.path, err)
		}
	}
	return nil
}

func removeTree(root string) error {
	var folders []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, folder := range slices.Backward(folders) {
		if err := removeFolder(folder); err != nil {
			return err
		}
	}
	return nil
}

// removeFolder tries again for a while: a cgroup stays busy for a moment after its last process was reaped, and
// nothing reports when that moment is over.
func removeFolder(folder string) error {
	return retry(30*time.Second, func() (bool, error) {
		err := unix.Rmdir(folder)
		return errors.Is(err, unix.EBUSY), err
	})
}

// retry repeats try for as long as that says again, at most for the given time, and returns its last error.
func retry(most time.Duration, try func() (again bool, err error)) error {
	const pause = 10 * time.Millisecond
	for deadline := time.Now().Add(most); ; <-time.After(pause) {
		again, err := try()
		if !again || time.Now().After(deadline) {
			return err
		}
	}
}
