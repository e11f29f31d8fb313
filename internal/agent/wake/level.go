package wake

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// armed are the levels that the kernel reports for a cgroup.
type armed struct {
	levels []int64
	fds    []int
}

// drift is how far a level may be from where it should be, in bytes.
const drift = 1 << 20

// Levels makes the kernel say when the use of memory of a cgroup crosses one of the levels, in bytes, and no others. Levels
// that are hardly different from those set stay. With cgroup v2 it does nothing.
func (w *Watcher) Levels(folder string, levels []int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.levels == nil || same(w.levels[folder].levels, levels) {
		return nil
	}
	next := armed{levels: slices.Clone(levels)}
	for _, level := range levels {
		fd, err := openControl(folder, "memory.usage_in_bytes", strconv.FormatInt(level, 10))
		if err != nil {
			for _, fd := range next.fds {
				unix.Close(fd)
			}
			return err
		}
		next.fds = append(next.fds, fd)
	}
	w.replace(w.levels[folder].fds, next.fds)
	w.levels[folder] = next
	w.stir()
	return nil
}

func same(a, b []int64) bool {
	return slices.EqualFunc(a, b, func(a, b int64) bool { return max(a-b, b-a) <= drift })
}

// replace leaves it to wait to close the old files: while it waits for them, their numbers must not go to others.
func (w *Watcher) replace(old, next []int) {
	w.sources = slices.DeleteFunc(w.sources, func(s source) bool { return slices.Contains(old, s.fd) })
	w.over = append(w.over, old...)
	for _, fd := range next {
		w.sources = append(w.sources, source{Level, fd, unix.POLLIN, true})
	}
}

// probeLevels finds out whether levels can be set, which they can in no cgroup or in all.
func (w *Watcher) probeLevels(folder string) error {
	fd, err := openControl(folder, "memory.usage_in_bytes", strconv.FormatInt(1<<60, 10))
	if err != nil {
		w.levels = nil
		return err
	}
	return unix.Close(fd)
}

// openControl asks cgroup v1 to write to an eventfd when a file of a cgroup has news.
func openControl(folder, file, argument string) (int, error) {
	subject, err := os.Open(filepath.Join(folder, file))
	if err != nil {
		return 0, err
	}
	defer subject.Close()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return 0, fmt.Errorf("waiting for %s: %w", file, err)
	}
	control := filepath.Join(folder, "cgroup.event_control")
	line := fmt.Sprintf("%d %d %s", fd, subject.Fd(), argument)
	if err := os.WriteFile(control, []byte(line), 0); err != nil {
		unix.Close(fd)
		return 0, fmt.Errorf("asking for news of %s: %w", filepath.Join(folder, file), err)
	}
	return fd, nil
}
