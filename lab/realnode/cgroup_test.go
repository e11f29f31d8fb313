package realnode

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/lab/kernel"
)

// TestCgroupOfV2: below what is made, a kubelet can make cgroups that count memory and pids; and all of it can be removed.
func TestCgroupOfV2(t *testing.T) {
	t.Parallel()
	if !kernel.Inside(t) {
		return
	}
	found, err := findHierarchies()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]hierarchy{{path: cgroupMount, unified: true}}, found, cmp.AllowUnexported(hierarchy{})); diff != "" {
		t.Error(diff)
	}
	if err := checkCgroups(); err != nil {
		t.Error(err)
	}
	const name = "usher7"
	for range 2 { // the second time, it is there
		if err := makeCgroup(name); err != nil {
			t.Fatal(err)
		}
	}
	pods := filepath.Join(cgroupMount, name, "kubepods")
	if err := os.Mkdir(pods, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"memory.max", "pids.max", "cpu.max"} {
		if _, err := os.Stat(filepath.Join(pods, file)); err != nil {
			t.Error(err)
		}
	}
	enter := func(folder string) {
		if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
			t.Fatal(err)
		}
	}
	enter(pods)
	enter(cgroupMount)
	for range 2 {
		if err := removeCgroup(name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Dir(pods)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}
