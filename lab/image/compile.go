package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Compile builds the workload program to the file out. Unlike the lab's other programs it is part of this source tree
// and small, so it is built each time and never out of date.
func Compile(ctx context.Context, out string) error { return compile(ctx, ".", "workload", out) }

// CompileUsher builds usher to the file out, as it runs in images.
func CompileUsher(ctx context.Context, out string) error {
	return compile(ctx, filepath.Join("..", ".."), "usher", out)
}

// compile builds a command of the module in dir, which is seen from here.
func compile(ctx context.Context, dir, command, out string) error {
	// The lab is always run from its source tree.
	_, file, _, _ := runtime.Caller(0)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", out, "./cmd/"+command)
	cmd.Dir = filepath.Join(filepath.Dir(file), dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", command, err, strings.TrimSpace(string(said)))
	}
	return nil
}

// Make builds the workload program and packs it with the files into an image archive in the folder dir, and returns
// the archive's path.
func Make(ctx context.Context, dir string, files ...File) (string, error) {
	program := filepath.Join(dir, "workload")
	if err := Compile(ctx, program); err != nil {
		return "", err
	}
	archive := filepath.Join(dir, "workload.tar")
	return archive, WriteFile(archive, Name, program, files...)
}
