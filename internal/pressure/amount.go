package pressure

import (
	"fmt"
	"strconv"
	"strings"
)

// Amount writes an amount of what a signal is about for people: bytes with one decimal and a binary unit ("1.5Gi"), inodes
// and pids as they are.
func (s Signal) Amount(n int64) string {
	switch s.Resource() {
	case resourceMemory, resourceDisk:
		return inBytes(n)
	}
	return strconv.FormatInt(n, 10)
}

func inBytes(n int64) string {
	if n < 0 {
		return "-" + inBytes(-n)
	}
	size, units := float64(n), "KMGTPE"
	if n < 1024 {
		return strconv.FormatInt(n, 10)
	}
	for i, unit := range units {
		size /= 1024
		if size < 1023.95 || i == len(units)-1 {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", size), ".0") + string(unit) + "i"
		}
	}
	return ""
}

// noun is what a signal counts, for sentences.
func (s Signal) noun() string {
	switch s.Resource() {
	case resourceMemory:
		return "of memory"
	case resourceDisk:
		return "of local disk"
	}
	return s.Resource()
}
