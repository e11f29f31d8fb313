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

// What the agent allows its own heap: with a hundred pods it needs a third of it.
const (
	memoryLimit = 24 << 20
	collectAt   = 50 // percent of growth
)

// oomScore is the kubelet's own: whoever is to relieve a node must not be the first to go.
const oomScore = "-999"

// protection is something that the agent does for itself.
type protection struct {
	name string
	err  error
}

// protect keeps the agent small, in memory, and out of the OOM killer's reach, as far as it may.
func protect() []protection {
	debug.SetGCPercent(collectAt)
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

// letGo drops the pages of the program's own file that were not changed. They come back when they are needed. What the
// linker has written to before it was made read-only would come back as it is in the file.
func letGo() error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("finding the program's own file: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("finding the program's own pages: %w", err)
	}
	var from, to uintptr
	changed := false
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 1 && !strings.HasSuffix(fields[0], ":"):
			from, to, changed = 0, 0, false
			if len(fields) < 6 || fields[5] != self || strings.Contains(fields[1], "w") {
				continue
			}
			if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err != nil {
				return fmt.Errorf("reading /proc/self/smaps: %w", err)
			}
		case from == 0 || len(fields) < 2:
		case fields[0] == "Anonymous:":
			changed = fields[1] != "0"
		case fields[0] == "Swap:" && fields[1] == "0" && !changed:
			if err := drop(from, to-from); err != nil {
				return err
			}
		}
	}
	return nil
}

func drop(from, size uintptr) error {
	// Huge ones would come back whole.
	for _, advice := range []uintptr{unix.MADV_NOHUGEPAGE, unix.MADV_DONTNEED} {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, size, advice); errno != 0 && advice == unix.MADV_DONTNEED {
			return fmt.Errorf("letting go of the program's own pages: %w", errno)
		}
	}
	return nil
}
