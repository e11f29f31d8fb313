package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// parentEnv makes this test binary play a program that starts a process and then hangs.
const parentEnv = "USHER_LAB_TEST_PARENT_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		playParent(dir)
	}
	os.Exit(m.Run())
}

func playParent(dir string) {
	p, err := Start(Spec{Name: "child", Path: "/bin/sleep", Args: []string{"600"}, Dir: dir, EndWithParent: true})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("started", p.PID)
	select {}
}

func TestStopEndsWhatWasStarted(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		grace        time.Duration
		want         string
	}{
		{"asked politely", "echo up; exec sleep 600", time.Minute, "signal: terminated"},
		{"ignores SIGTERM", "trap '' TERM; echo up; exec sleep 600", time.Millisecond, "signal: killed"},
		{"not asked", "echo up; exec sleep 600", 0, "signal: killed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stopped(t, tc.script, tc.grace, tc.want)
		})
	}
}

func stopped(t *testing.T, script string, grace time.Duration, want string) {
	t.Helper()
	dir := t.TempDir()
	p := startScript(t, dir, script)
	awaitLog(t, p)
	records, err := Records(dir)
	if err != nil || len(records) != 1 || !records[0].Alive() {
		t.Fatalf("got records %v, %v, want one of a living process", records, err)
	}
	if err := records[0].Stop(dir, grace); err != nil {
		t.Fatal(err)
	}
	<-p.Ended()
	if got := p.Failure().Error(); !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if left, err := Records(dir); len(left) > 0 || err != nil {
		t.Errorf("records left: %v, %v", left, err)
	}
	if err := records[0].Stop(dir, grace); err != nil {
		t.Errorf("stopping again: %v, want no error", err)
	}
}

func TestStopLeavesAProcessAloneThatOnlyHasTheSameID(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Record)
	}{
		{"started later", func(r *Record) { r.Ticks++ }},
		{"another boot", func(r *Record) { r.Boot = "another" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			p := startScript(t, dir, "exec sleep 600")
			stranger := p.Record
			tc.change(&stranger)
			if err := stranger.Stop(t.TempDir(), 0); err != nil {
				t.Fatal(err)
			}
			if !p.Alive() {
				t.Error("a process was ended that is not the recorded one")
			}
		})
	}
}

func TestProcessEndsWithItsParent(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.CommandContext(t.Context(), self)
	parent.Env = append(os.Environ(), parentEnv+"="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var pid int
	if _, scanErr := fmt.Sscanf(line, "started %d", &pid); scanErr != nil {
		t.Fatalf("parent said %q, %v", line, err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	_ = parent.Process.Kill()
	_ = parent.Wait()
	if gone, err := wait(fd, time.Minute); !gone || err != nil {
		t.Errorf("child of a killed program still runs (%v)", err)
	}
}

// A program that reads the records of a folder is not disturbed by others that stop what is theirs.
func TestARecordThatGoesMeanwhileIsPassedOver(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "gone"), filepath.Join(dir, "other"+suffix)); err != nil {
		t.Fatal(err)
	}
	p := startScript(t, dir, "sleep 60")
	records, err := Records(dir)
	if err != nil || len(records) != 1 || records[0].PID != p.PID {
		t.Errorf("got %v, %v, want the record of %d", records, err, p.PID)
	}
}

func TestFailureShowsTheEndOfTheLog(t *testing.T) {
	p := startScript(t, t.TempDir(), "echo no such flag; exit 3")
	<-p.Ended()
	got := p.Failure().Error()
	for _, want := range []string{"script", "exit status 3", "no such flag"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}

func TestParseStat(t *testing.T) {
	rest := " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20"
	for _, tc := range []struct {
		name, stat, state string
		ticks             uint64
		fails             bool
	}{
		{name: "plain", stat: "17 (etcd) S" + rest, state: "S", ticks: 4711},
		{name: "blanks and parentheses in the name", stat: "17 (a) Z (b) R" + rest, state: "R", ticks: 4711},
		{name: "no name", stat: "17 etcd S" + rest, fails: true},
		{name: "short", stat: "17 (etcd) S 1 2", fails: true},
		{name: "no number", stat: "17 (etcd) S" + strings.Replace(rest, "4711", "x", 1), fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			state, ticks, err := parseStat([]byte(tc.stat))
			if (err != nil) != tc.fails || state != tc.state || ticks != tc.ticks {
				t.Errorf("got %q, %d, %v, want %q, %d, failure %t", state, ticks, err, tc.state, tc.ticks, tc.fails)
			}
		})
	}
}

// awaitLog waits until the process has written something, and so has come past its trap.
func awaitLog(t *testing.T, p *Process) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for Tail(p.Log) == "" {
		<-tick.C
	}
}

func startScript(t *testing.T, dir, script string) *Process {
	t.Helper()
	p, err := Start(Spec{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Dir: dir, EndWithParent: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.Alive() {
			_ = unix.Kill(p.PID, unix.SIGKILL)
		}
		<-p.Ended()
	})
	return p
}
