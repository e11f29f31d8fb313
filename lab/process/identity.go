package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// identity distinguishes two processes with the same id.
type identity struct {
	ticks uint64
	boot  string
}

// identify reads the identity of a process and whether it runs; one that has ended but was not waited for does not.
func identify(pid int) (id identity, runs bool, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return identity{}, false, err
	}
	state, ticks, err := parseStat(stat)
	if err != nil {
		return identity{}, false, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return identity{}, false, err
	}
	return identity{ticks: ticks, boot: strings.TrimSpace(string(boot))}, state != "Z" && state != "X", nil
}

// parseStat reads fields 3 (state) and 22 (start time) of /proc/PID/stat. Field 2 is the program's name in
// parentheses and may itself contain blanks and parentheses, so counting begins after the last one.
func parseStat(stat []byte) (state string, ticks uint64, err error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return "", 0, errors.New("reading process state: no name in parentheses")
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 20 {
		return "", 0, fmt.Errorf("reading process state: %d fields, want at least 20 after the name", len(fields))
	}
	ticks, err = strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("reading process start time: %w", err)
	}
	return fields[0], ticks, nil
}
