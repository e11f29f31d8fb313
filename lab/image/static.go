package image

import (
	"debug/elf"
	"fmt"
	"slices"
)

// checkStatic refuses a program that asks for a loader: the image has none, and the pod would only say "no such file".
func checkStatic(path string) error {
	program, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("putting %s into the image: not a program for Linux: %w", path, err)
	}
	defer program.Close()
	if slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return fmt.Errorf("putting %s into the image: it is linked dynamically; build it with CGO_ENABLED=0", path)
	}
	return nil
}
