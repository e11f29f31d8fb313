package realnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"usher.sh/usher/lab/process"
)

// mark is what Down needs to know; it is on disk before anything is made.
type mark struct {
	Slot      Slot   `json:"slot"`
	Process   string `json:"process"`
	Processes string `json:"processes"`
}

const markFile = "slot.json"

func (m mark) write(dir string) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding the node's slot: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, markFile), data, 0o644)
}

// Down ends the node whose state folder is dir, started by this or another program, and removes all that it made, the
// folder last. A folder that is not there is no error.
func Down(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, markFile))
	if errors.Is(err, os.ErrNotExist) {
		return os.RemoveAll(dir)
	}
	if err != nil {
		return fmt.Errorf("ending real node: %w", err)
	}
	var m mark
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("ending real node: reading %s: %w", filepath.Join(dir, markFile), err)
	}
	if err := m.end(); err != nil {
		return fmt.Errorf("ending real node %s: %w", m.Process, err)
	}
	return os.RemoveAll(dir)
}

// DownAll ends all nodes whose state folders are in parent.
func DownAll(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("ending real nodes: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		errs = append(errs, Down(filepath.Join(parent, entry.Name())))
	}
	return errors.Join(errs...)
}

func (m mark) end() error {
	records, err := process.Records(m.Processes)
	if err != nil {
		return err
	}
	for _, record := range records {
		if record.Name != m.Process {
			continue
		}
		if err := record.Stop(m.Processes, stopGrace); err != nil {
			return err
		}
	}
	claim, err := m.Slot.reclaim()
	if errors.Is(err, errSlotTaken) {
		return nil // another node began here since, and has cleared the slot
	}
	if err != nil {
		return err
	}
	defer claim.Close()
	return m.Slot.clear()
}

// reclaim is claim for a slot whose node has ended. It tries for a moment: a child that this program is just starting
// elsewhere holds copies of all its files until it executes.
func (s Slot) reclaim() (*os.File, error) {
	var claim *os.File
	err := retry(10*time.Second, func() (bool, error) {
		var err error
		claim, err = s.claim()
		return errors.Is(err, errSlotTaken), err
	})
	return claim, err
}
