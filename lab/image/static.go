package image

import (
	"debug/elf"
	"fmt"
	"slices"
)

// checkStatic refuses a program that asks for a loader: the image has none, and the pod would only say "no such file".
func checkStatic(path string) error {
	program, err := open(path)
	if err != nil {
		return err
	}
	defer program.Close()
	if slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return fmt.Errorf("putting %s into the image: it is linked dynamically; build it with CGO_ENABLED=0", path)
	}
	return nil
}

// architectureOf returns the architecture that a program was built for, as images and nodes name it.
func architectureOf(path string) (string, error) {
	program, err := open(path)
	if err != nil {
		return "", err
	}
	defer program.Close()
	names := map[elf.Machine]string{
		elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_S390: "s390x", elf.EM_PPC64: "ppc64le", elf.EM_RISCV: "riscv64",
	}
	name, ok := names[program.Machine]
	if !ok {
		return "", fmt.Errorf("putting %s into the image: no known architecture is %s", path, program.Machine)
	}
	return name, nil
}

func open(path string) (*elf.File, error) {
	program, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("putting %s into the image: not a program for Linux: %w", path, err)
	}
	return program, nil
}
