package binaries

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Progress is called as a build goes on.
type Progress interface {
	Start(name string)
	Done(name string, took time.Duration)
	Kept(name string) // it was in the cache
}

// Build makes sure that all of list is in the cache. It stops at the first failure; what was built before stays.
func (c Cache) Build(ctx context.Context, list []Binary, p Progress) error {
	for _, b := range list {
		target, err := c.target(b)
		if err != nil {
			return err
		}
		if _, err := os.Stat(target); err == nil {
			p.Kept(b.Name)
			continue
		}
		begin := time.Now()
		p.Start(b.Name)
		if err := b.build(ctx, target); err != nil {
			return fmt.Errorf("building %s: %w", b.Name, err)
		}
		p.Done(b.Name, time.Since(begin))
	}
	return nil
}

// build writes beside the target and renames, so that neither an interrupt nor a second build at the same time
// leaves half a program under the final name.
func (b Binary) build(ctx context.Context, target string) error {
	source, err := b.moduleDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(target), ".building-"+b.Name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	built := filepath.Join(work, b.Name)
	if err := b.compile(ctx, source, built); err != nil {
		return err
	}
	return os.Rename(built, target)
}

func (b Binary) compile(ctx context.Context, source, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", b.LDFlags, "-o", out, b.Package)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Env = append(cmd.Env, b.Env...)
	// Asked politely, go ends its compilers too and removes its work folder.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(stderr.String()))
	}
	return nil
}
