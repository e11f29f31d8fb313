package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.sh/usher/lab/cluster"
	"usher.sh/usher/lab/process"
)

// run runs the command line and returns what it printed.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := root()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func up(t *testing.T, name string) (dir string) {
	t.Helper()
	dir, err := cluster.StateDir(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Down(dir, 0) })
	out, err := run(t, "up", "--name", name, "--nodes", "2", "--zones", "2", "--profile", "fast")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "KUBECONFIG="+filepath.Join(dir, "kubeconfig")) {
		t.Errorf("up printed %q, want how to use the lab", out)
	}
	return dir
}

func TestLabsSideBySide(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	a, b := up(t, "a"), up(t, "b")
	for _, dir := range []string{a, b} {
		if err := serves(dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := run(t, "up", "--name", "a"); err == nil || !strings.Contains(err.Error(), "already up") {
		t.Errorf("up over a running lab: got %v", err)
	}
	downEndsItsOwn(t, "a", a)
	for _, r := range recordsOf(t, b) {
		if !r.Alive() {
			t.Errorf("%s of the other lab was ended too", r.Name)
		}
	}
	if err := serves(b); err != nil {
		t.Errorf("the other lab: %v", err)
	}
	out, err := run(t, "list")
	if err != nil || strings.Contains(out, a) || !strings.Contains(out, b) {
		t.Errorf("list: got %q, %v, want only the lab that is up", out, err)
	}
	if _, err := run(t, "down", "--name", "a"); err != nil {
		t.Errorf("down again: %v, want no error", err)
	}
	if _, err := run(t, "down", "--name", "b"); err != nil {
		t.Error(err)
	}
}

func downEndsItsOwn(t *testing.T, name, dir string) {
	t.Helper()
	records := recordsOf(t, dir)
	out, err := run(t, "down", "--name", name)
	if err != nil || !strings.Contains(out, fmt.Sprintf("%d processes ended", len(records))) {
		t.Errorf("down: got %q, %v", out, err)
	}
	for _, r := range records {
		if r.Alive() {
			t.Errorf("%s (process %d) runs after down", r.Name, r.PID)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("state folder after down: %v, want it gone", err)
	}
}

func TestUpReplacesALabWhoseProcessesAreGone(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := up(t, "a")
	for _, r := range recordsOf(t, dir) {
		if err := r.Stop(t.TempDir(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := serves(up(t, "a")); err != nil {
		t.Error(err)
	}
}

func TestBadArgumentsAreRefused(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, args := range [][]string{
		{"up", "--name", "Not A Name"},
		{"up", "--name", "../x"},
		{"up", "--nodes", "-1"},
		{"up", "--zones", "27"},
		{"up", "--profile", "slow"},
		{"up", "--cache", t.TempDir()},
		{"down", "--name", "../x"},
	} {
		if out, err := run(t, args...); err == nil {
			t.Errorf("%q: got %q, want an error", args, out)
		}
	}
}

func serves(dir string) error {
	c, err := cluster.Open(dir)
	if err != nil {
		return err
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	_, err = client.Discovery().ServerVersion()
	return err
}

func recordsOf(t *testing.T, dir string) []process.Record {
	t.Helper()
	records, err := process.Records(filepath.Join(dir, "processes"))
	if err != nil || len(records) == 0 {
		t.Fatalf("got records %v, %v, want some", records, err)
	}
	return records
}
