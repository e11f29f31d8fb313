package throwaway

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Resident returns the memory that the replica has, in bytes.
func (r *Replica) Resident() (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Process.PID))
	if err != nil {
		return 0, fmt.Errorf("weighing %s: %w", r.Name, err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			n, err := strconv.Atoi(fields[1])
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("weighing %s: its status has no VmRSS", r.Name)
}
