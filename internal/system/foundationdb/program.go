package foundationdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"usher.sh/usher/internal/share"
)

const (
	// maxOutput is how many bytes fdbcli may write: the status of a process has 4 to 10 KB.
	maxOutput = 32 << 20
	// maxWords is how many bytes of errors and warnings it may write.
	maxWords = 64 << 10
	// maxMemory is how much memory fdbcli may have; it needs 30 MB and its output.
	maxMemory = "128MiB"
	// maxRuns is how many may run at a time, of all policies together: the manager's memory limit has room for so many.
	maxRuns = 2
	// lastWords is how long fdbcli's output is waited for once it was killed.
	lastWords = time.Second
)

// slots has a number for each fdbcli that may run beside those that do.
var slots = numbers(maxRuns)

func numbers(n int) chan int {
	free := make(chan int, n)
	for i := range n {
		free <- i
	}
	return free
}

// each lets a namespace have one of the runs at a time, so that clusters that do not answer hold up those of their own namespace alone.
var each = share.New(1)

// program is fdbcli at a path, run for a namespace. Each run has a process group, a directory and a cluster file of its own, and no environment.
type program struct{ path, namespace string }

// Run implements CLI. The command is one argument of the program; nothing takes it to pieces but fdbcli itself.
func (p program) Run(ctx context.Context, clusterFile, command string) (Output, error) {
	slot, leave, err := p.enter(ctx)
	if err != nil {
		return Output{}, err
	}
	defer leave()
	dir, err := directory(slot)
	if err != nil {
		return Output{}, fmt.Errorf("running fdbcli: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is a cluster file, and the next run removes it
	file := filepath.Join(dir, "fdb.cluster")
	if err := os.WriteFile(file, []byte(clusterFile), 0o600); err != nil {
		return Output{}, fmt.Errorf("running fdbcli: %w", err)
	}
	out, err := p.run(ctx, dir, "-C", file, "--no-status", "--memory", maxMemory, "--timeout", seconds(ctx), "--exec", command)
	if err != nil {
		return Output{}, err
	}
	out.ClusterFile, err = leftBehind(file)
	return out, err
}

// enter waits until one more may run, and returns its number. Those that wait, one of each namespace, go in turn.
func (p program) enter(ctx context.Context) (slot int, leave func(), err error) {
	release, err := each.Take(ctx, p.namespace)
	if err != nil {
		return 0, nil, fmt.Errorf("waiting for a run of fdbcli to end: %w", err)
	}
	select {
	case slot = <-slots:
		return slot, func() { slots <- slot; release() }, nil
	case <-ctx.Done():
		release()
		return 0, nil, fmt.Errorf("waiting for one of %d runs of fdbcli to end: %w", maxRuns, context.Cause(ctx))
	}
}

// directory makes the empty directory of a run. Its name is that of the same run of the process before, which in a container has the same id: what that has
// left when it was killed is removed.
func directory(slot int) (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("usher-fdbcli-%d-%d", os.Getpid(), slot))
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.Mkdir(dir, 0o700)
}

// leftBehind reads the cluster file that a run has left behind.
func leftBehind(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // it is in the run's own directory
	if err != nil {
		return "", fmt.Errorf("reading the cluster file that fdbcli has left behind: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(file, maxClusterFile+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("reading the cluster file that fdbcli has left behind: %w", err)
	case len(content) > maxClusterFile:
		return "", fmt.Errorf("reading the cluster file that fdbcli has left behind: it is larger than %d KiB", maxClusterFile>>10)
	}
	return string(content), nil
}

// Version implements CLI.
func (p program) Version(ctx context.Context) (string, error) {
	_, leave, err := p.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	out, err := p.run(ctx, os.TempDir(), "--version")
	if err != nil {
		return "", err
	}
	return out.version()
}

// seconds are those that fdbcli gives itself: a little more than ctx has, so that it ends by itself where it is not ended.
func seconds(ctx context.Context) string {
	deadline, ok := ctx.Deadline()
	if !ok {
		return "60"
	}
	return strconv.Itoa(1 + max(1, int(math.Ceil(time.Until(deadline).Seconds()))))
}

func (p program) run(ctx context.Context, dir string, args ...string) (Output, error) {
	if p.path == "" {
		return Output{}, errors.New("the manager runs without fdbcli: usher install --fdbcli-image gives it that program (or --fdbcli its path)")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out, stderr := &limited{limit: maxOutput, full: cancel}, &limited{limit: maxWords, full: cancel}
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, []string{}, out, stderr, lastWords
	inOwnGroup(cmd)
	err := cmd.Run()
	wrote := Output{Out: out.kept.String(), Err: stderr.kept.String()}
	ended, _ := errors.AsType[*exec.ExitError](err)
	_, tooMuch := errors.AsType[tooMuchError](context.Cause(ctx))
	switch cause := context.Cause(ctx); {
	case tooMuch:
		return Output{}, cause
	case cause != nil:
		return Output{}, fmt.Errorf("fdbcli has not ended: %w", cause)
	case err != nil && ended == nil:
		return Output{}, fmt.Errorf("running fdbcli: %w", err)
	case err != nil && wrote.Out == "" && wrote.Err == "":
		return Output{}, fmt.Errorf("fdbcli says nothing and has ended with %w", err)
	}
	return wrote, nil // the exit code says nothing
}

// tooMuchError is the limit, in bytes, that fdbcli has written more than.
type tooMuchError int

func (e tooMuchError) Error() string {
	if e >= 1<<20 {
		return fmt.Sprintf("fdbcli has written more than %d MiB", int(e)>>20)
	}
	return fmt.Sprintf("fdbcli has written more than %d KiB of errors", int(e)>>10)
}

// limited keeps what is written to it, up to a limit, at which it ends what writes. The buffer is no embedded one: its ReadFrom would know no limit.
type limited struct {
	kept  bytes.Buffer
	limit int // bytes
	full  context.CancelCauseFunc
}

func (l *limited) Write(p []byte) (int, error) {
	if l.kept.Len()+len(p) > l.limit {
		l.full(tooMuchError(l.limit))
		return 0, tooMuchError(l.limit)
	}
	return l.kept.Write(p)
}
