package image

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Linked returns programs of the host together with the loader and the libraries that ldd names for them, which are in the image where the host has them.
func Linked(ctx context.Context, programs ...File) ([]File, error) {
	all, seen := []File{}, map[string]bool{}
	for _, program := range programs {
		program.Linked = true
		all = append(all, program)
		said, err := exec.CommandContext(ctx, "ldd", program.From).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("looking for the libraries of %s: %w: %s", program.From, err, strings.TrimSpace(string(said)))
		}
		for line := range strings.Lines(string(said)) {
			if library := libraryOf(line); library != "" && !seen[library] {
				seen[library] = true
				all = append(all, File{From: library, To: library, Linked: true})
			}
		}
	}
	return all, nil
}

// libraryOf is the path in a line of ldd: NAME => PATH (ADDRESS), or PATH (ADDRESS) of the loader; "": there is none, as of what the kernel brings.
func libraryOf(line string) string {
	_, path, linked := strings.Cut(line, "=> ")
	if !linked {
		path = strings.TrimSpace(line)
	}
	path, _, _ = strings.Cut(path, " ")
	if !strings.HasPrefix(path, "/") {
		return ""
	}
	return path
}
