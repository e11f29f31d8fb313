package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/cluster"
)

func TestFailedStartSaysWhyAndLeavesNothing(t *testing.T) {
	cache, err := binaries.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "lab")
	// An apiserver cannot write its audit log to a folder, and ends.
	if err := os.MkdirAll(filepath.Join(dir, "audit.log"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Config{Name: "broken", Dir: dir, Cache: cache, EndWithParent: true})
	if err == nil {
		t.Fatalf("started %v, want a failure", c.Stop())
	}
	for _, want := range []string{"kube-apiserver ended unexpectedly", "audit.log"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("state folder: %v, want it gone", err)
	}
}

func TestStartWithoutProgramsSaysWhatToDo(t *testing.T) {
	config := cluster.Config{Name: "none", Dir: filepath.Join(t.TempDir(), "lab"), Cache: binaries.Cache{Dir: t.TempDir()}}
	_, err := cluster.Start(t.Context(), config)
	if err == nil || !strings.Contains(err.Error(), "make lab") {
		t.Errorf("got %v, want the command to type", err)
	}
}

func TestStateDirRefusesNamesThatAreNoFolderName(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", "A", "-a", "a-", strings.Repeat("a", 41)} {
		if dir, err := cluster.StateDir(name); err == nil {
			t.Errorf("%q: got %s, want an error", name, dir)
		}
	}
}

func TestASecondCommandIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	unlock, err := cluster.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Lock(dir); err == nil || !strings.Contains(err.Error(), "another command") {
		t.Errorf("locking twice: got %v", err)
	}
	unlock()
	again, err := cluster.Lock(dir)
	if err != nil {
		t.Fatalf("locking after unlocking: %v", err)
	}
	again()
}
