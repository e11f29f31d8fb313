// Package process answers: how does a lab start a program so that exactly that program, and no other, can be ended
// later, also by another command?
//
// A process is recorded with its id, its start time and the boot it belongs to; ids alone are reused. Linux only:
// the start time is read from /proc and signals go through a pidfd.
package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Record is what is written to disk about a started process.
type Record struct {
	Name    string    `json:"name"`
	PID     int       `json:"pid"`
	Ticks   uint64    `json:"startTicks"` // start time in clock ticks since boot, field 22 of /proc/PID/stat
	Boot    string    `json:"boot"`       // /proc/sys/kernel/random/boot_id
	Started time.Time `json:"started"`
	Log     string    `json:"log"`
	Args    []string  `json:"args"`
}

const suffix = ".process.json"

// write stores the record in dir under the name of the process.
func (r Record) write(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the record of %s: %w", r.Name, err)
	}
	path := filepath.Join(dir, r.Name+suffix)
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Records reads all records in dir, oldest process first. A folder that does not exist holds none.
func Records(dir string) ([]Record, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading process records: %w", err)
	}
	var records []Record
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		r, err := read(filepath.Join(dir, e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // it was stopped meanwhile
		}
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	slices.SortStableFunc(records, func(a, b Record) int { return a.Started.Compare(b.Started) })
	return records, nil
}

func read(path string) (Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Record{}, fmt.Errorf("reading process record: %w", err)
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("reading process record %s: %w", path, err)
	}
	return r, nil
}
