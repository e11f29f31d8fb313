package realnode

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.sh/usher/lab/binaries"
)

func needRealNodes(t *testing.T) binaries.Cache {
	t.Helper()
	cache, err := binaries.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	if err := Preflight(cache); err != nil {
		t.Skipf("SKIPPED, nothing was tested: %v", err)
	}
	return cache
}

// TestLeftoversAreCleared leaves behind what a killed test binary leaves: bridge and cgroup, and no process that claims them.
func TestLeftoversAreCleared(t *testing.T) {
	needRealNodes(t)
	slot, claim, err := claimFree()
	if err != nil {
		t.Fatal(err)
	}
	if err := slot.build(false); err != nil {
		t.Fatal(err)
	}
	if _, err := slot.claim(); !errors.Is(err, errSlotTaken) {
		t.Fatalf("claiming a slot twice: got %v, want %v", err, errSlotTaken)
	}
	bridge, err := net.InterfaceByName(slot.Name())
	if err != nil {
		t.Fatal(err)
	}
	claim.Close()

	// The next claim, by this or another program, clears the slot before using it.
	next, claim, err := claimFree()
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	if next != slot {
		t.Skipf("another program took slot %d meanwhile", slot)
	}
	if _, err := net.InterfaceByIndex(bridge.Index); err == nil {
		t.Errorf("bridge %s is still there", slot.Name())
	}
	left, err := filepath.Glob("/sys/fs/cgroup/*/" + slot.Name())
	if err != nil || len(left) > 0 {
		t.Errorf("cgroups are still there: %v %v", left, err)
	}
}

// TestFailedStartLeavesNothing fails after containerd runs: the image is none.
func TestFailedStartLeavesNothing(t *testing.T) {
	cache := needRealNodes(t)
	dir := t.TempDir()
	image := filepath.Join(dir, "image.tar")
	if err := os.WriteFile(image, []byte("not an archive"), 0o644); err != nil {
		t.Fatal(err)
	}
	config := Config{
		Name: "broken", Dir: filepath.Join(dir, "node"), Processes: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"),
		ClientCA: filepath.Join(dir, "ca.crt"), Cache: cache, Images: []string{image}, EndWithParent: true,
	}
	_, err := Start(t.Context(), config)
	if err == nil || !strings.Contains(err.Error(), "importing image "+image) {
		t.Errorf("got error %v, want one that names the image", err)
	}
	if _, err := os.Stat(config.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the node's folder is still there (%v)", err)
	}
	if records, err := filepath.Glob(filepath.Join(dir, "*.process.json")); err != nil || len(records) > 0 {
		t.Errorf("process records are still there: %v %v", records, err)
	}
}
