package foundationdb

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// script is a program in fdbcli's place.
func script(t *testing.T, text string) program {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fdbcli")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	return program{path, "db"}
}

func TestRunsOfFDBCLI(t *testing.T) {
	t.Setenv("USHER_TEST_SECRET", "hidden")
	out, err := script(t, `echo "$USHER_TEST_SECRET|$#|$9"; pwd; echo problem >&2; echo moved > "$2"; exit 3`).Run(t.Context(), "a:b@10.0.0.1:1\n", `status json; $(id) 'x'`)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.Out, "\n")
	if lines[0] != `|9|`+`status json; $(id) 'x'` {
		t.Errorf("it was run with %q", lines[0])
	}
	if out.ClusterFile != "moved\n" || out.Err != "problem\n" {
		t.Errorf("%+v", out)
	}
	if _, err := os.Stat(lines[1]); !os.IsNotExist(err) {
		t.Errorf("its directory %s is left: %v", lines[1], err)
	}
	// What a process that was killed has left is removed by the next that has its id.
	if err := os.MkdirAll(filepath.Join(lines[1], "left"), 0o700); err != nil {
		t.Fatal(err)
	}
	var again []string
	for range maxRuns {
		out, err := script(t, `echo "$(pwd) $(ls)"`).Run(t.Context(), "", "status")
		if err != nil {
			t.Error(err)
		}
		again = append(again, strings.TrimSpace(out.Out))
	}
	if !slices.Contains(again, lines[1]+" fdb.cluster") {
		t.Errorf("what was left in %s is there: %q", lines[1], again)
	}
	for name, test := range map[string]struct{ program, want string }{
		"nothing said":        {"exit 1", "fdbcli says nothing and has ended with exit status 1"},
		"more than there may": {"while :; do printf '%65536s' x; done", "fdbcli has written more than 32 MiB"},
		"more errors":         {"while :; do printf '%4096s' x >&2; done", "fdbcli has written more than 64 KiB of errors"},
		"a large file":        {`head -c 65537 /dev/zero > "$2"; echo`, "reading the cluster file that fdbcli has left behind: it is larger than 64 KiB"},
	} {
		if _, err := script(t, test.program).Run(t.Context(), "", "status"); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (program{path: "/nowhere/fdbcli"}).Run(t.Context(), "", "status"); err == nil || !strings.Contains(err.Error(), "running fdbcli: ") {
		t.Errorf("a program that is not there: %v", err)
	}
	if _, err := (program{}).Run(t.Context(), "", "status"); err == nil || !strings.Contains(err.Error(), "usher install --fdbcli-image gives it that program") {
		t.Errorf("no program: %v", err)
	}
}

// So many run at a time, whoever asks, one of each namespace. Another waits until one has ended, or as long as it may.
func TestRunsAtATime(t *testing.T) {
	dir := t.TempDir()
	pipe := func(i int) string { return filepath.Join(dir, strconv.Itoa(i)) }
	done := make(chan error, maxRuns)
	for i := range maxRuns {
		if err := syscall.Mkfifo(pipe(i), 0o600); err != nil {
			t.Fatal(err)
		}
		fdbcli := script(t, "echo > "+pipe(i)+"; read -r go < "+pipe(i)+"; echo done")
		fdbcli.namespace = strconv.Itoa(i)
		go func() {
			_, err := fdbcli.Run(t.Context(), "", "status")
			done <- err
		}()
		if _, err := os.ReadFile(pipe(i)); err != nil { // it runs
			t.Fatal(err)
		}
	}
	quick := script(t, "echo done")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := quick.Run(ctx, "", "status"); err == nil || !strings.HasPrefix(err.Error(), "waiting for ") {
		t.Errorf("a third runs: %v", err)
	}
	for i := range maxRuns {
		if i == 1 {
			quick.namespace = "1"
			want := "waiting for a run of fdbcli to end: namespace 1 has 1 under way already, as many as it may: context canceled"
			if _, err := quick.Run(ctx, "", "status"); err == nil || err.Error() != want {
				t.Errorf("a second of its namespace runs: %v", err)
			}
		}
		if err := os.WriteFile(pipe(i), []byte("go\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if _, err := quick.Run(t.Context(), "", "status"); err != nil {
		t.Errorf("the runs have ended: %v", err)
	}
}

// What a program has started ends with it, also where it holds its output open.
func TestARunThatDoesNotEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := script(t, `sleep 1000 & echo $! > `+file+`; wait`).Run(ctx, "", "status")
		done <- err
	}()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "fdbcli has not ended") {
		t.Errorf("%v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for running(pid) && t.Context().Err() == nil {
		runtime.Gosched() // it was killed, and ends any moment
	}
}

// running reports whether a process has not ended; one that has and was not waited for has.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
