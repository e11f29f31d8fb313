package agent

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// memoryLimit is what the agent allows its own heap: with a hundred pods it needs a third of it.
const memoryLimit = 24 << 20

// oomScore is the kubelet's own: the process that is to relieve a node must not be the first that the kernel kills.
const oomScore = "-999"

// protection is something that the agent does for itself.
type protection struct {
	name string
	err  error
}

// protect keeps the agent small, in memory, and out of the OOM killer's reach, as far as it may.
func protect() []protection {
	debug.SetMemoryLimit(memoryLimit)
	return []protection{
		{"its memory stays in memory", lock()},
		{"the OOM killer passes it over", spare()},
	}
}

// lock holds what is used, and not all that could be: most of a program is never touched again after it has started, so
// that is let go first.
func lock() error {
	if err := unix.Munlockall(); err != nil {
		return fmt.Errorf("munlockall: %w", err)
	}
	if err := letGo(); err != nil {
		return err
	}
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		return fmt.Errorf("mlockall: %w", err)
	}
	return nil
}

func spare() error {
	return os.WriteFile("/proc/self/oom_score_adj", []byte(oomScore), 0)
}

// settledAfter is when everything that happens only once has happened.
const settledAfter = 30 * time.Second

// lockAnew holds what is still used once the agent has settled down; that it could be held is known from the start.
func lockAnew(ctx context.Context) {
	settled := time.NewTimer(settledAfter)
	defer settled.Stop()
	select {
	case <-ctx.Done():
	case <-settled.C:
		_ = lock()
	}
}

// letGo drops the pages of the program's own file that cannot have been changed. They come back when they are needed.
func letGo() error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("finding the program's own file: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("finding the program's own pages: %w", err)
	}
	for _, addresses := range unchanged(string(maps), self) {
		if err := drop(addresses); err != nil {
			return fmt.Errorf("letting go of the program's own pages: %w", err)
		}
	}
	return nil
}

// unchanged lists the ranges of a file that are as the file is. In a program that is linked dynamically, the loader has
// written addresses into pages that are read-only now: dropped, they would come back without, and the next call crash.
func unchanged(smaps, file string) []string {
	var found []string
	candidate := ""
	for line := range strings.Lines(smaps) {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 2 && !strings.HasSuffix(fields[0], ":"):
			candidate = ""
			if len(fields) >= 6 && fields[5] == file && !strings.Contains(fields[1], "w") {
				candidate = fields[0]
			}
		case candidate != "" && len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0":
			found = append(found, candidate)
		}
	}
	return found
}

// drop lets go of a range of addresses as /proc/self/smaps has it. Huge pages would come back whole; that they are not wanted
// may be refused, where there are none.
func drop(addresses string) error {
	var from, to uintptr
	if _, err := fmt.Sscanf(addresses, "%x-%x", &from, &to); err != nil {
		return err
	}
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_NOHUGEPAGE)
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); errno != 0 {
		return errno
	}
	return nil
}
