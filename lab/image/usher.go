package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// UsherName is the reference of the image of usher in tests.
const UsherName = "lab.usher.sh/usher:lab"

// usherUser is what the manager's Deployment runs as; the agents' DaemonSet sets a user of its own.
const usherUser = "65532:65532"

// Usher says which image of usher is built.
type Usher struct {
	Name    string // the image's reference
	Arch    string // of the nodes, as GOARCH has it; this machine's if empty
	Release string // the release that the program says it is; none if empty
}

// Write builds usher and packs it into the archive at the path out, which appears whole or not at all.
func (u Usher) Write(ctx context.Context, out string) error {
	dir, err := os.MkdirTemp("", "usher-image-")
	if err != nil {
		return fmt.Errorf("building the image: %w", err)
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "usher")
	if err := u.Compile(ctx, program); err != nil {
		return err
	}
	return u.Pack(program, out)
}

// Compile builds the program to the file out.
func (u Usher) Compile(ctx context.Context, out string) error {
	return compile(ctx, build{
		dir: filepath.Join("..", ".."), command: "usher", out: out, arch: u.Arch, ldflags: u.stamps(), flags: []string{"-trimpath"},
	})
}

// Pack puts a program that Compile has built into the archive at the path out, with further files.
func (u Usher) Pack(program, out string, files ...File) error {
	return WriteFile(out, Spec{Name: u.Name, User: usherUser, Entry: File{From: program, To: "/usher"}, Files: files})
}

// stamps are what the linker writes into a release: which it is, and its image.
func (u Usher) stamps() []string {
	if u.Release == "" {
		return nil
	}
	const pkg = "usher.sh/usher/internal/cli"
	return []string{"-X", pkg + ".stamped=" + u.Release, "-X", pkg + ".releaseImage=" + u.Name}
}
