package wake

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestNext(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	tests := []struct {
		name     string
		headroom int64
		rate     float64
		want     time.Duration
	}{
		{"past the threshold", -5, 0, Shortest},
		{"at it", 0, 0, Shortest},
		{"near it", 40 * mib, 0, Shortest},
		{"a little away", gib, 0, 250 * time.Millisecond},
		{"far away", 100 * gib, 0, Longest},
		{"a slow rate changes nothing", gib, 100 * mib, 250 * time.Millisecond},
		{"a fast one does", 8 * gib, 16 * gib, 250 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Next(tt.headroom, tt.rate, Fastest); got != tt.want {
				t.Errorf("Next(%d, %g) = %s, want %s", tt.headroom, tt.rate, got, tt.want)
			}
		})
	}
}

func TestNextWithoutAnyRate(t *testing.T) {
	if got := Next(10, 0, 0); got != Longest {
		t.Errorf("what nothing fills is looked at every %s", got)
	}
}

// memoryCgroup makes a cgroup of v1 in which a test can use memory.
func memoryCgroup(t *testing.T) string {
	t.Helper()
	folder := filepath.Join("/sys/fs/cgroup/memory", "usher-wake-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: this needs root and the memory controller of cgroup v1: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(folder); err != nil {
			t.Error(err)
		}
	})
	return folder
}

func TestLevelOfRealMemory(t *testing.T) {
	folder := memoryCgroup(t)
	w, offers, err := Open(Options{Proc: "/proc", Pods: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, o := range offers {
		t.Logf("%s: %v", o.Name, o.Err)
	}
	// The first levels are replaced at once by others while they are waited for.
	for _, level := range []int64{64 << 20, 32 << 20, 8 << 20} {
		if err := w.Levels(folder, []int64{level, 1 << 40}); err != nil {
			t.Fatal(err)
		}
	}
	charge(t, folder, 16<<20)
	for reason := range w.C() {
		if reason == Level {
			return
		}
	}
}

// charge fills memory on a cgroup's account, by a file of tmpfs that is written by a thread in it.
func charge(t *testing.T, folder string, size int64) {
	t.Helper()
	fd, err := unix.MemfdCreate("charge", 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "charge")
	defer file.Close()
	home := ownMemoryCgroup(t)
	move(t, folder)
	defer move(t, home)
	if _, err := file.WriteAt(make([]byte, size), 0); err != nil {
		t.Fatal(err)
	}
}

func ownMemoryCgroup(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(data)) {
		line := strings.SplitN(strings.TrimSpace(text), ":", 3)
		if line[1] == "memory" {
			return filepath.Join("/sys/fs/cgroup/memory", line[2])
		}
	}
	t.Fatal("this process is in no cgroup of memory")
	return ""
}

func move(t *testing.T, folder string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		t.Fatal(err)
	}
}

func TestPSIOfThisMachine(t *testing.T) {
	fd, err := openPSI("/proc/pressure/memory")
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: this machine offers no PSI: %v", err)
	}
	unix.Close(fd)
}

// fakeEvents is a watcher of a file that stands for memory.events, and what changes that.
func fakeEvents(t *testing.T) (*Watcher, []Offer, func()) {
	t.Helper()
	folder := t.TempDir()
	change := func() {
		if err := os.WriteFile(filepath.Join(folder, "memory.events"), []byte("oom_kill 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change()
	w, offers, err := Open(Options{Proc: folder, Unified: true, Pods: folder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w, offers, change
}

func TestEventsOfV2(t *testing.T) {
	w, offers, change := fakeEvents(t)
	if offers[0].Err == nil || offers[2].Err != nil {
		t.Errorf("offers %+v", offers)
	}
	if err := w.Levels(t.TempDir(), []int64{1}); err != nil {
		t.Errorf("levels are not offered, and asking for them is no error: %v", err)
	}
	for range 2 { // the second falls into the calm after the first, and is reported after it
		change()
		if got := <-w.C(); got != Changed {
			t.Errorf("woken by %q", got)
		}
	}
}

// TestChangesAreReportedOnceInAWhile: pods at their own limits must not keep the agent busy.
func TestChangesAreReportedOnceInAWhile(t *testing.T) {
	w, _, change := fakeEvents(t)
	began, reported := time.Now(), 0
	for range 200 {
		change()
		for range 10 { // time for the watcher
			runtime.Gosched()
		}
		select {
		case <-w.C():
			reported++
		default:
		}
	}
	if most := int(time.Since(began)/calm) + 1; reported > most {
		t.Errorf("reported %d times in %s", reported, time.Since(began))
	}
}

func TestCloseEndsTheWait(t *testing.T) {
	w, _, err := Open(Options{Proc: t.TempDir(), Pods: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	w.Close()
}
