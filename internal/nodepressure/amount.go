package nodepressure

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

// under writes an amount below a limit so that it differs from the limit: "200Mi less 36Ki" where both are written "200Mi".
func (s Signal) under(n, limit int64) string {
	if text := s.Amount(n); n >= limit || text != s.Amount(limit) {
		return text
	}
	return s.Amount(limit) + " less " + s.Amount(limit-n)
}

// apart says by how much an amount is above another that is written like it, "" if they are written differently or are
// the same.
func (s Signal) apart(more, less int64) string {
	if more == less || s.Amount(more) != s.Amount(less) {
		return ""
	}
	return fmt.Sprintf(" (%s less)", s.Amount(more-less))
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
