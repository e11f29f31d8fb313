package realnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Disk is a file system that a node has for itself, for its /var/lib: what fills it fills no disk of the host, and what
// others do to the host's disk does not count. Without a size, the node shares the host's.
type Disk struct {
	Size   resource.Quantity
	Inodes int // 0: as many as the file system gets for its size
}

const diskFile = "disk.ext4"

// make makes the file that holds the file system. It takes as much of the host's disk as is written to it.
func (d Disk) make(dir string) error {
	if d.Size.IsZero() {
		return nil
	}
	path := filepath.Join(dir, diskFile)
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("making the node's disk: %w", err)
	}
	if err := file.Truncate(d.Size.Value()); err != nil {
		file.Close()
		return fmt.Errorf("making the node's disk: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("making the node's disk: %w", err)
	}
	args := []string{"-q", "-F", "-m", "0", "-O", "^has_journal"}
	if d.Inodes > 0 {
		args = append(args, "-N", strconv.Itoa(d.Inodes))
	}
	return hostTool("mkfs.ext4", append(args, path)...)
}

// mountDisk is for the node's first process: the mount, and the loop device under it, go away with its namespace.
func (p plan) mountDisk() error {
	if !p.OwnDisk {
		return nil
	}
	return hostTool("mount", "-o", "loop", filepath.Join(p.Root, diskFile), filepath.Join(p.Root, "/var/lib"))
}

// hostTool runs a program of the host, which sudo may have left out of PATH.
func hostTool(name string, args ...string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		path = filepath.Join("/usr/sbin", name)
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil { //nolint:noctx // it takes no time, and a node's start has none to spare for half a disk
		return fmt.Errorf("making the node's disk: %s: %w\n%s", name, err, out)
	}
	return nil
}
