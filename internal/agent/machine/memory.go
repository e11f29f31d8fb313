package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
)

// Memory is what a cgroup and all below it use, in bytes.
type Memory struct {
	// Usage is everything that is charged to it, caches too.
	Usage int64
	// WorkingSet is Usage without the file cache that was not used lately, as the kubelet counts.
	WorkingSet int64
	// Limit is 0 if there is none.
	Limit int64
	// Resident is what the kernel counts when it looks for a victim: anonymous and mapped memory, and swap.
	Resident int64
}

// unlimited is above what any machine has: v1 writes a number near 2^63 where there is no limit.
const unlimited = 1 << 62

// memoryOf reads a cgroup's memory.
func (m *Machine) memoryOf(cgroup string) (Memory, error) {
	folder := m.tree.memoryFolder(cgroup)
	stat, err := readStat(filepath.Join(folder, "memory.stat"))
	if err != nil {
		return Memory{}, err
	}
	if m.tree.unified {
		return memoryV2(folder, stat)
	}
	return memoryV1(folder, stat)
}

func memoryV1(folder string, stat stat) (Memory, error) {
	usage, err := readNumber(filepath.Join(folder, "memory.usage_in_bytes"))
	if err != nil {
		return Memory{}, err
	}
	limit, err := readNumber(filepath.Join(folder, "memory.limit_in_bytes"))
	if err != nil {
		return Memory{}, err
	}
	if limit >= unlimited {
		limit = 0
	}
	return Memory{
		Usage:      usage,
		WorkingSet: max(usage-stat["total_inactive_file"], 0),
		Limit:      limit,
		Resident:   stat["total_rss"] + stat["total_mapped_file"] + stat["total_swap"],
	}, nil
}

// memoryV2 takes the root's usage from its statistics, as it has no memory.current: what the kernel itself uses is not in
// it.
func memoryV2(folder string, stat stat) (Memory, error) {
	usage, err := readNumber(filepath.Join(folder, "memory.current"))
	if errors.Is(err, fs.ErrNotExist) {
		usage, err = stat["anon"]+stat["file"], nil
	}
	if err != nil {
		return Memory{}, err
	}
	limit, err := readLimit(filepath.Join(folder, "memory.max"))
	if err != nil {
		return Memory{}, err
	}
	swap, err := readNumber(filepath.Join(folder, "memory.swap.current"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // absent without swap accounting
		return Memory{}, err
	}
	return Memory{
		Usage:      usage,
		WorkingSet: max(usage-stat["inactive_file"], 0),
		Limit:      limit,
		Resident:   stat["anon"] + stat["file_mapped"] + swap,
	}, nil
}

// stat is what is used of a memory.stat.
type stat map[string]int64

var wanted = map[string]bool{
	"total_inactive_file": true, "total_rss": true, "total_mapped_file": true, "total_swap": true, // v1
	"anon": true, "file": true, "inactive_file": true, "file_mapped": true, // v2
}

func readStat(name string) (stat, error) {
	data, err := readFile(name)
	if err != nil {
		return nil, err
	}
	found := stat{}
	for line := range bytes.Lines(data) {
		key, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte{' '})
		if !ok || !wanted[string(key)] {
			continue
		}
		n, err := number(name, value)
		if err != nil {
			return nil, err
		}
		found[string(key)] = n
	}
	return found, nil
}

// readNumber reads a file with one number in it; one that no int64 holds counts as the largest.
func readNumber(name string) (int64, error) {
	data, err := readFile(name)
	if err != nil {
		return 0, err
	}
	return number(name, data)
}

func number(name string, data []byte) (int64, error) {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("reading %s: %w", name, err)
	}
	return n, nil
}

// readLimit reads a limit of v2; none, or no such file as at the root, is 0.
func readLimit(name string) (int64, error) {
	data, err := readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil || string(bytes.TrimSpace(data)) == "max" {
		return 0, err
	}
	return number(name, data)
}
