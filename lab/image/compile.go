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
func Compile(ctx context.Context, out string) error {
	return compile(ctx, build{dir: ".", command: "workload", out: out, flags: []string{"-buildvcs=false"}})
}

// Make builds the workload program and packs it with the files into an image archive in the folder dir, and returns
// the archive's path.
func Make(ctx context.Context, dir string, files ...File) (string, error) {
	program := filepath.Join(dir, "workload")
	if err := Compile(ctx, program); err != nil {
		return "", err
	}
	archive := filepath.Join(dir, "workload.tar")
	return archive, WriteFile(archive, Spec{Name: Name, Entry: File{From: program, To: Program}, Files: files})
}

// build is one run of the compiler.
type build struct {
	dir     string   // of the module, seen from here
	command string   // the folder under its cmd
	out     string   // the file to write
	arch    string   // GOARCH; this machine's if empty
	ldflags []string // besides those that leave out symbols
	flags   []string // of go build
}

func compile(ctx context.Context, b build) error {
	// The lab is always run from its source tree.
	_, file, _, _ := runtime.Caller(0)
	args := append([]string{"build", "-ldflags", strings.Join(append([]string{"-s -w"}, b.ldflags...), " "), "-o", b.out}, b.flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/"+b.command)...)
	cmd.Dir = filepath.Join(filepath.Dir(file), b.dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS=linux")
	if b.arch != "" {
		cmd.Env = append(cmd.Env, "GOARCH="+b.arch)
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", b.command, err, strings.TrimSpace(string(said)))
	}
	return nil
}
