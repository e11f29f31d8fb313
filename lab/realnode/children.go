package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// program is one that the node's first process starts.
type program struct {
	name, path string
	args, env  []string // env replaces what the environment says
	log        string   // file; output is appended
}

// end is how a child has ended. Children that others left behind have no name.
type end struct {
	name   string
	log    string
	status unix.WaitStatus
}

func (e end) failure() error {
	how := fmt.Sprintf("exit status %d", e.status.ExitStatus())
	if e.status.Signaled() {
		how = "killed by " + e.status.Signal().String()
	}
	return fmt.Errorf("%s ended (%s); the end of %s:\n%s", e.name, how, e.log, tail(e.log))
}

// tail returns the last of a log, at most 1 KiB: the log itself may be gone when a person reads the error.
func tail(path string) string {
	const most = 1 << 10
	log, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(log[max(0, len(log)-most):]))
}

// children are the processes that the first process of a node has to wait for: the programs that it started, and, as
// process 1, all that lose their parent.
type children struct {
	ended chan end
	once  sync.Once

	mu     sync.Mutex // held while a program is started, so that its end is not taken for a stranger's
	byName map[int]program
}

func newChildren() *children {
	return &children{ended: make(chan end), byName: map[int]program{}}
}

func (c *children) start(p program) error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	defer log.Close()
	// It ends with the node, by the kernel.
	cmd := exec.CommandContext(context.Background(), p.path, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Dir = "/"
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	c.byName[cmd.Process.Pid] = p
	c.once.Do(func() { go c.reap() })
	return nil
}

// reap waits for children for as long as there are any; as containerd is one, that is as long as the node runs.
func (c *children) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		c.mu.Lock()
		p := c.byName[pid]
		delete(c.byName, pid)
		c.mu.Unlock()
		c.ended <- end{name: p.name, log: p.log, status: status}
	}
}

// await returns when done is closed. That a program of the node ends before is an error.
func (c *children) await(what string, done <-chan struct{}, stop <-chan os.Signal) error {
	for {
		select {
		case <-done:
			return nil
		case <-stop:
			return errStopped
		case e := <-c.ended:
			if e.name != "" {
				return fmt.Errorf("waiting for %s: %w", what, e.failure())
			}
		}
	}
}

// awaitEnd returns when the next program ends, with an error unless it ended well.
func (c *children) awaitEnd(stop <-chan os.Signal) error {
	for {
		select {
		case <-stop:
			return errStopped
		case e := <-c.ended:
			if e.name != "" && e.status == 0 {
				return nil
			}
			if e.name != "" {
				return e.failure()
			}
		}
	}
}
