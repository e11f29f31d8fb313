package machine

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// Space is what lies in folders: bytes as allocated, and inodes.
type Space struct {
	Bytes, Inodes int64
}

func (s Space) plus(o Space) Space { return Space{s.Bytes + o.Bytes, s.Inodes + o.Inodes} }

// Disk is what a pod has written to this machine's file systems.
type Disk struct {
	Logs, Volumes, Layers Space
}

// maxFiles is how many files of one pod are looked at. Looking at each takes some microseconds; what a pod with more has
// written counts no less than what was seen.
const maxFiles = 500_000

// Disk looks through what a pod has written: logs, emptyDir volumes and its containers' writable layers. It can take
// seconds; ctx ends it.
func (m *Machine) Disk(ctx context.Context, namespace, name string, uid types.UID) (Disk, error) {
	w := &walk{ctx: ctx, left: maxFiles, seen: map[inode]bool{}}
	var found Disk
	found.Logs = w.sum(m.hostPath(filepath.Join(logDir, namespace+"_"+name+"_"+string(uid))))
	volumes := m.hostPath(filepath.Join(m.options.KubeletDir, "pods", string(uid), "volumes/kubernetes.io~empty-dir"))
	found.Volumes = w.sum(volumes)
	layers, err := m.layers(uid)
	if err != nil && w.err == nil {
		w.err = err
	}
	for _, layer := range layers {
		found.Layers = found.Layers.plus(w.sum(m.hostPath(layer)))
	}
	return found, w.err
}

type inode struct{ device, number uint64 }

// walk looks through folders. Files with several names count once; what is mounted inside does not count.
type walk struct {
	ctx  context.Context //nolint:containedctx // it lives as long as one call of Disk
	left int
	seen map[inode]bool
	err  error
}

// sum counts a folder and all below it; one that is not there has nothing.
func (w *walk) sum(root string) Space {
	var top unix.Stat_t
	if err := unix.Lstat(root, &top); err != nil {
		return Space{}
	}
	var total Space
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || w.left == 0 {
			return w.skip(err)
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
		var s unix.Stat_t
		if err := unix.Lstat(path, &s); err != nil {
			return ignoreGone(err)
		}
		if s.Dev != top.Dev {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		total = total.plus(w.count(&s))
		return nil
	})
	if err != nil && w.err == nil {
		w.err = err
	}
	return total
}

// skip leaves out what vanished or may not be read, and everything once enough was seen.
func (w *walk) skip(err error) error {
	if w.left == 0 {
		return filepath.SkipAll
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return ignoreGone(err)
}

func (w *walk) count(s *unix.Stat_t) Space {
	w.left--
	if s.Nlink > 1 && s.Mode&unix.S_IFMT != unix.S_IFDIR {
		id := inode{s.Dev, s.Ino}
		if w.seen[id] {
			return Space{}
		}
		w.seen[id] = true
	}
	const block = 512 // whatever the file system's own is
	return Space{Bytes: s.Blocks * block, Inodes: 1}
}

// layers lists the writable layers of a pod's containers as paths of the host. The kernel names them among the mounts of
// their processes; what is mounted without overlayfs is not found.
func (m *Machine) layers(uid types.UID) ([]string, error) {
	cgroup, err := m.Cgroup(uid)
	if errors.Is(err, ErrNoCgroup) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pids, err := m.processes(cgroup)
	if err != nil {
		return nil, err
	}
	var found []string
	known := map[string]bool{}
	for _, pid := range pids {
		if layer := m.layerOf(pid); layer != "" && !known[layer] {
			known[layer] = true
			found = append(found, layer)
		}
	}
	return found, nil
}

// layerOf returns the upper directory of what a process sees as /, or "".
func (m *Machine) layerOf(pid int) string {
	file, err := os.Open(m.proc(filepath.Join(strconv.Itoa(pid), "mountinfo")))
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields, tail := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(tail) < 3 || fields[4] != "/" || tail[0] != "overlay" {
			continue
		}
		for option := range strings.SplitSeq(tail[2], ",") {
			if upper, ok := strings.CutPrefix(option, "upperdir="); ok {
				return upper
			}
		}
	}
	return ""
}
