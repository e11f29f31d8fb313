package realetcd

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	// drainLimit ends only drains that hang.
	drainLimit = 10 * time.Minute
	// again is when a person runs a drain again that has given up.
	again = time.Second
)

// drainer runs a command that drains a node until it says that it has.
type drainer struct {
	command func(ctx context.Context, node string) *exec.Cmd
	logf    func(string, ...any)

	drains int
	reruns int
	took   time.Duration
}

func (e *etcd) kubectlDrain(t *testing.T) *drainer {
	t.Helper()
	kubectl := e.lab.Binary(t, "kubectl")
	return &drainer{logf: t.Logf, command: func(ctx context.Context, node string) *exec.Cmd {
		return exec.CommandContext(ctx, kubectl, "--kubeconfig", e.lab.Kubeconfig(), "drain", node,
			"--ignore-daemonsets", "--delete-emptydir-data")
	}}
}

// drain runs the command again when it fails: kubectl gives up when the apiserver is away, or a webhook.
func (d *drainer) drain(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drainLimit, fmt.Errorf("not within %s", drainLimit))
	defer cancel()
	begin := time.Now()
	for {
		out, err := d.command(ctx, node).CombinedOutput()
		if err == nil {
			d.drains++
			d.took += time.Since(begin)
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("draining %s: %w; it said last:\n%s", node, context.Cause(ctx), out)
		}
		d.reruns++
		d.logf("draining %s, to be run again: %v: %s", node, err, lastLine(string(out)))
		select {
		case <-time.After(again):
		case <-ctx.Done():
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// uncordon tries until the apiserver answers.
func (e *etcd) uncordon(ctx context.Context, kubectl, node string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		out, err := exec.CommandContext(ctx, kubectl, "--kubeconfig", e.lab.Kubeconfig(), "uncordon", node).CombinedOutput()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("uncordoning %s: %w: %s", node, err, out), ctx.Err())
		}
	}
}
