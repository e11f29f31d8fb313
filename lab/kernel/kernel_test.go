package kernel

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func TestInside(t *testing.T) {
	if !Inside(t) {
		return
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Linux %s", strings.TrimSpace(string(release)))
	controllers, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil || !strings.Contains(string(controllers), "memory") || !strings.Contains(string(controllers), "pids") {
		t.Errorf("controllers %q, %v; want memory and pids among them", controllers, err)
	}
	if err := os.WriteFile("/usher-was-here", nil, 0o600); err == nil {
		t.Error("the machine's files can be written")
	}
}

func TestPassed(t *testing.T) {
	tests := []struct {
		name, said string
		ok         bool
	}{
		{"it passed", "=== RUN   TestA\n--- PASS: TestA (0.01s)\nPASS\n", true},
		{"another did", "--- PASS: TestAB (0.01s)\nPASS\n", false},
		{"it failed", "--- FAIL: TestA (0.01s)\nFAIL\n", false},
		{"it was skipped", "--- SKIP: TestA (0.01s)\nPASS\n", false},
		{"there is none", "testing: warning: no tests to run\nPASS\n", false},
		{"the kernel ended before", "=== RUN   TestA\n", false},
		{"it says so itself", "    --- PASS: TestA (0.01s)\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := passed(tt.said, "TestA"); (err == nil) != tt.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestConsoleSaysOnceThatItHalted: a kernel that has halted may never exit.
func TestConsoleSaysOnceThatItHalted(t *testing.T) {
	said, write := io.Pipe()
	halted := 0
	c, copied := &console{halt: func() { halted++ }}, make(chan error)
	go func() {
		_, err := io.Copy(c, said) // as a command's output is copied
		copied <- err
	}()
	for _, part := range []string{"mmapper_init\nreboot: Sys", "tem halt", "ed\n", "more\n"} {
		if _, err := io.WriteString(write, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(write.Close(), <-copied); err != nil || halted != 1 {
		t.Errorf("of %q it has said %d times that it halted, %v", c, halted, err)
	}
}
