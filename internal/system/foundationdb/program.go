package foundationdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const (
	// maxOutput is how many bytes fdbcli may write: the status of a process has 4 to 10 KB.
	maxOutput = 32 << 20
	// maxMemory is how much memory fdbcli may have; it needs 30 MB and its output.
	maxMemory = "512MiB"
	// lastWords is how long fdbcli's output is waited for once it was killed.
	lastWords = time.Second
)

// program is fdbcli at a path. Each run has a process group, a directory and a cluster file of its own, and no environment.
type program struct{ path string }

// Run implements CLI. The command is one argument of the program; nothing takes it to pieces but fdbcli itself.
func (p program) Run(ctx context.Context, clusterFile, command string) (Output, error) {
	dir, err := os.MkdirTemp("", "usher-fdbcli-")
	if err != nil {
		return Output{}, fmt.Errorf("running fdbcli: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is a cluster file
	file := filepath.Join(dir, "fdb.cluster")
	if err := os.WriteFile(file, []byte(clusterFile), 0o600); err != nil {
		return Output{}, fmt.Errorf("running fdbcli: %w", err)
	}
	out, err := p.run(ctx, dir, "-C", file, "--no-status", "--memory", maxMemory, "--timeout", seconds(ctx), "--exec", command)
	if err != nil {
		return Output{}, err
	}
	now, err := os.ReadFile(file)
	if err != nil {
		return Output{}, fmt.Errorf("running fdbcli: %w", err)
	}
	out.ClusterFile = string(now)
	return out, nil
}

// Version implements CLI.
func (p program) Version(ctx context.Context) (string, error) {
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
		return Output{}, errors.New("the manager runs without fdbcli: give it the program's path with --fdbcli")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out, stderr := &limited{rest: maxOutput, full: cancel}, &limited{rest: maxOutput, full: cancel}
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, []string{}, out, stderr, lastWords
	inOwnGroup(cmd)
	err := cmd.Run()
	wrote := Output{Out: out.kept.String(), Err: stderr.kept.String()}
	ended, _ := errors.AsType[*exec.ExitError](err)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTooMuch):
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

var errTooMuch = fmt.Errorf("fdbcli has written more than %d MiB", maxOutput>>20)

// limited keeps what is written to it, up to a limit, at which it ends what writes. The buffer is no embedded one: its ReadFrom would know no limit.
type limited struct {
	kept bytes.Buffer
	rest int
	full context.CancelCauseFunc
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.rest {
		l.full(errTooMuch)
		return 0, errTooMuch
	}
	l.rest -= len(p)
	return l.kept.Write(p)
}
