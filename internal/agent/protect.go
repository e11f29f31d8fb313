package agent

import (
	"fmt"
	"os"
	"runtime/debug"

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

// lock holds what is used, and not all that could be: most of a program is never touched.
func lock() error {
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		return fmt.Errorf("mlockall: %w", err)
	}
	return nil
}

func spare() error {
	return os.WriteFile("/proc/self/oom_score_adj", []byte(oomScore), 0)
}
