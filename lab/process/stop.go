package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Alive reports whether exactly the recorded process still runs.
func (r Record) Alive() bool {
	id, runs, err := identify(r.PID)
	return err == nil && runs && id == identity{ticks: r.Ticks, boot: r.Boot}
}

// Stop ends the recorded process: SIGTERM, up to grace for it to end, then SIGKILL. A process that has ended already,
// or whose id now belongs to another process, is left alone and is no error. The record in dir is removed when the
// process was seen gone.
func (r Record) Stop(dir string, grace time.Duration) error {
	if err := r.end(grace); err != nil {
		return fmt.Errorf("ending %s (process %d): %w", r.Name, r.PID, err)
	}
	err := os.Remove(filepath.Join(dir, r.Name+suffix))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// end holds a pidfd before it looks at the identity: from then on the id cannot be reused under its hands.
func (r Record) end(grace time.Duration) error {
	fd, err := unix.PidfdOpen(r.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !r.Alive() {
		return nil
	}
	if grace > 0 {
		if err := signal(fd, unix.SIGTERM); err != nil {
			return err
		}
		if gone, err := wait(fd, grace); gone || err != nil {
			return err
		}
	}
	if err := signal(fd, unix.SIGKILL); err != nil {
		return err
	}
	// Long, as the kernel first writes out what was mounted in a mount namespace that ends with the process.
	const killed = 2 * time.Minute
	gone, err := wait(fd, killed)
	if err == nil && !gone {
		return fmt.Errorf("still there %s after SIGKILL", killed)
	}
	return err
}

func signal(fd int, s unix.Signal) error {
	err := unix.PidfdSendSignal(fd, s, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// wait reports whether the process of fd ended in time; a pidfd becomes readable when it does.
func wait(fd int, most time.Duration) (bool, error) {
	deadline := time.Now().Add(most)
	for {
		left := max(0, time.Until(deadline))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return n > 0, err
	}
}
