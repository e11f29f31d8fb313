package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Spec says what to start.
type Spec struct {
	Name string   // names the record and the log
	Path string   // the program
	Args []string // without the program's name
	Env  []string // added to the environment, as KEY=value
	Dir  string   // where record and log go; must exist

	// EndWithParent makes the kernel kill the process when the starting program ends, however it ends.
	EndWithParent bool

	Namespaces uintptr    // CLONE_NEW… flags: namespaces of its own
	Files      []*os.File // inherited, from file descriptor 3 on
}

// Process is a running child.
type Process struct {
	Record
	ended chan struct{}
	err   error // of Wait; to be read after ended is closed
}

// Start starts the program in a session of its own, with its output appended to <Dir>/<Name>.log, and records it.
func Start(s Spec) (*Process, error) {
	path := filepath.Join(s.Dir, s.Name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(s.Path, s.Args...) //nolint:noctx // it outlives the program that started it; Stop ends it
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.ExtraFiles = s.Files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: s.Namespaces}
	p := &Process{ended: make(chan struct{})}
	p.Record = Record{Name: s.Name, Log: path, Args: append([]string{s.Path}, s.Args...)}
	started := make(chan error)
	go p.run(cmd, s, started)
	if err := <-started; err != nil {
		<-p.ended
		return nil, fmt.Errorf("starting %s: %w", s.Name, err)
	}
	return p, nil
}

// run starts the child and waits for it on one locked thread: the kernel's death signal goes out when the thread
// that forked ends, not the process, so that thread must live as long as the child.
func (p *Process) run(cmd *exec.Cmd, s Spec, started chan<- error) {
	defer close(p.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if s.EndWithParent {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	// Recorded before it is waited for: until then the kernel keeps its entry in /proc, even if it has ended already.
	err := p.record(s.Dir, cmd.Process.Pid)
	if err != nil {
		_ = cmd.Process.Kill()
	}
	started <- err
	p.err = cmd.Wait()
}

func (p *Process) record(dir string, pid int) error {
	id, _, err := identify(pid)
	if err != nil {
		return err
	}
	p.PID, p.Ticks, p.Boot, p.Started = pid, id.ticks, id.boot, time.Now()
	return p.write(dir)
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Failure says how the process ended, with the end of its log. To be called after Ended was closed.
func (p *Process) Failure() error {
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s ended unexpectedly (%s); the end of %s:\n%s", p.Name, how, p.Log, Tail(p.Log))
}

// Tail returns the last lines of a log, at most 2 KiB, or why it cannot be read.
func Tail(path string) string {
	const most = 2 << 10
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}
