package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// What the kernel does not know on its command line, it hands to its first process as environment.
const (
	testVariable  = "USHER_KERNEL_TEST"
	shareVariable = "USHER_KERNEL_SHARE"
)

// whereCachesAre are the variables by which the lab finds its programs.
var whereCachesAre = []string{"HOME", "XDG_CACHE_HOME", "USHER_LAB_CACHE"}

const (
	// patience is many times what a boot and a test take.
	patience = 10 * time.Minute
	// memory is what the kernel may take of the machine's, page by page as it is touched.
	memory = "512M"

	// halted is the last line of the console, and exitsWithin is many times what the kernel takes to exit after it. Sometimes
	// it never does; what the test says is on the machine's disk by then.
	halted      = "reboot: System halted"
	exitsWithin = 10 * time.Second
)

var errHalted = errors.New("it has halted, and does not exit")

var errNoNamespace = errors.New("this machine does not permit the namespaces that a kernel needs")

// boot runs one test of this test binary in a kernel, and returns what its console showed.
func boot(ctx context.Context, path, share, test string) (string, error) {
	first, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding the test binary: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it did not end within %s", patience))
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	arguments := []string{
		"mem=" + memory, "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet",
		"con=null", "con0=null,fd:1", "uml_dir=" + share,
		"init=" + first, testVariable + "=" + test, shareVariable + "=" + share,
	}
	for _, name := range whereCachesAre {
		if value, set := os.LookupEnv(name); set {
			arguments = append(arguments, name+"="+value)
		}
	}
	cmd := exec.CommandContext(ctx, path, arguments...)
	cmd.Env = []string{"HOME=" + share}
	cmd.SysProcAttr = boxed()
	console := &console{halt: func() { time.AfterFunc(exitsWithin, func() { end(errHalted) }) }}
	cmd.Stdout, cmd.Stderr = console, console // the same for both: it is written to by one goroutine
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("%w: %w", errNoNamespace, err)
	}
	prefer(cmd.Process.Pid)
	err = cmd.Wait()
	switch {
	case errors.Is(context.Cause(ctx), errHalted):
		return console.String(), nil
	case ctx.Err() != nil:
		return console.String(), context.Cause(ctx)
	}
	return console.String(), err
}

// prefer lets the processes of the kernel compute before all that runs beside them, where that is permitted. They share one processor, and
// programs in there give up after seconds of a slow clock, again and again. The machine's scheduler divides its processors by sessions
// first: the niceness of a process counts within its session only.
func prefer(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), []byte("-10"), 0)
}

// console keeps what the kernel says, and calls halt once the kernel has halted.
type console struct {
	said bytes.Buffer // not embedded: its ReadFrom would be called instead of Write
	halt func()
}

func (c *console) String() string { return c.said.String() }

// Write takes in what the kernel says.
func (c *console) Write(said []byte) (int, error) {
	before := bytes.Contains(c.said.Bytes(), []byte(halted))
	n, err := c.said.Write(said)
	if !before && bytes.Contains(c.said.Bytes(), []byte(halted)) {
		c.halt()
	}
	return n, err
}

// boxed keeps the kernel's processes from becoming the machine's. They are traced children of the kernel, and would go on
// as such, with the machine's system calls, if it ended before them. As first of its namespace it takes them with it,
// however it ends, and in a user namespace none of them has a right outside.
func boxed() *syscall.SysProcAttr {
	root := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
	}
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
		UidMappings: root(os.Getuid()), GidMappings: root(os.Getgid()),
		Pdeathsig: syscall.SIGKILL,
		Setsid:    true,
	}
}
