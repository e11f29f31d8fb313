package openstack

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// scripted starts a supervisor with these in place of the real scripts.
func scripted(t *testing.T, up, down string) (s *supervisor, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unpack(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"up.sh": up, "down.sh": down} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	s, err = supervise(dir, lock, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func TestSupervisorRunsCommands(t *testing.T) {
	s, dir := scripted(t, `echo "for $COMPUTES" >>done; [ -n "$COMPUTES" ] || { echo "nothing to start"; exit 3; }`, `echo "down $*" >>done`)
	if err := s.run("COMPUTES=compute-1", up); err != nil {
		t.Error(err)
	}
	err := s.run(up)
	if err == nil || !strings.Contains(err.Error(), "ended with 3") || !strings.Contains(err.Error(), "nothing to start") {
		t.Errorf("got %v, want the exit status and what was said", err)
	}
	if err := s.run(down, "-9", "compute-1"); err != nil {
		t.Error(err)
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	const want = "for compute-1\nfor \ndown -9 compute-1\ndown -9\n"
	if got, err := os.ReadFile(filepath.Join(dir, "done")); string(got) != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if err := s.run(up); err == nil {
		t.Error("a command was run after the end")
	}
}

// The lock is another's only when everything has been ended, also where the program that started it ends in the middle of a command.
func TestEverythingEndsWithTheProgramThatStartedIt(t *testing.T) {
	s, dir := scripted(t, `echo begun >begun; cat go; echo up >>done`, `echo down >>done`)
	begun, proceed := filepath.Join(dir, "begun"), filepath.Join(dir, "go")
	for _, path := range []string{begun, proceed} {
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	failed := make(chan error)
	go func() { failed <- s.run(up) }()
	if _, err := os.ReadFile(begun); err != nil {
		t.Fatal(err)
	}
	// What the kernel does with the files of a program that has ended.
	if err := errors.Join(s.commands.Close(), s.answers.Close()); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("a command was answered after the end")
	}
	other, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("locking during a command: %v, want %v", err, unix.EWOULDBLOCK)
	}
	if err := os.WriteFile(proceed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	const want = "up\ndown\n"
	if got, err := os.ReadFile(filepath.Join(dir, "done")); string(got) != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if err := s.script.Wait(); err != nil {
		t.Error(err)
	}
}
