package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"usher.sh/usher/lab/process"
	"usher.sh/usher/lab/realnode"
)

// Stop ends the control plane and everything else that Run started, and removes the state folder.
func (c *Cluster) Stop() error { return c.end(StopGrace) }

// Kill is Stop without asking first; for labs whose state is not needed any more.
func (c *Cluster) Kill() error { return c.end(0) }

func (c *Cluster) end(grace time.Duration) error {
	return errors.Join(Down(c.Dir, grace), c.releasePorts())
}

// Down ends every process recorded in the state folder dir, the last started first, and removes the folder. Each
// gets grace to end by itself. A folder that does not exist, or whose processes are gone, is no error. When a process
// cannot be ended, the folder stays, so that Down can be tried again.
func Down(dir string, grace time.Duration) error {
	// First, because the records do not show what a real node has made besides processes.
	if err := realnode.DownAll(filepath.Join(dir, realNodes)); err != nil {
		return fmt.Errorf("ending lab: %w", err)
	}
	processes := filepath.Join(dir, "processes")
	records, err := process.Records(processes)
	if err != nil {
		return fmt.Errorf("ending lab: %w", err)
	}
	var errs []error
	for _, r := range slices.Backward(records) {
		errs = append(errs, r.Stop(processes, grace))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ending lab: %w", err)
	}
	return os.RemoveAll(dir)
}
