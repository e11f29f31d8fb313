// Package kernel answers: how does a test run on another kernel than the machine's, with cgroup v2 and none but its
// own cgroups?
//
// The kernel is user-mode Linux, an ordinary process that needs no root. It boots the test binary itself as its first
// process, on the machine's files, of which only a folder of the test's can be written. It has no PSI, and no network but
// loopback.
package kernel

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	program = "linux.uml"
	install = "apt-get install user-mode-linux"
)

// Inside reports whether the test runs in the kernel. If it does not, a kernel has been booted for this test alone and
// has ended, and the test has failed unless it passed there; nothing is left to do but to return. Without the kernel's
// program the test is skipped. Subtests cannot ask. Before the boot, prepare puts into Share, by its name on the machine,
// what the test needs and cannot make there.
func Inside(t *testing.T, prepare ...func(share string)) bool {
	t.Helper()
	if inside() {
		return true
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: this needs a kernel that runs as a process: %s", install)
	}
	share := t.TempDir()
	for _, put := range prepare {
		put(share)
	}
	console, err := boot(t.Context(), path, share, t.Name())
	if errors.Is(err, errNoNamespace) {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	said, readErr := os.ReadFile(filepath.Join(share, outputFile))
	if err = errors.Join(err, readErr, passed(string(said), t.Name())); err != nil {
		t.Fatalf("in the kernel: %v\n%s\nIts console:\n%s", err, said, console)
	}
	t.Logf("in the kernel:\n%s", said)
	return false
}

// passed wants to see that the test passed: an end without an error may also mean that there was no such test.
func passed(said, test string) error {
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "--- PASS: "+test+" (") {
			return nil
		}
	}
	return fmt.Errorf("%s has not passed", test)
}
