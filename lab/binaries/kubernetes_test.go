package binaries

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestVersionsArePinned(t *testing.T) {
	for _, k := range Versions() {
		dir, err := k.binary("kube-apiserver").moduleDir()
		if err != nil {
			t.Fatal(err)
		}
		pins, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`k8s\.io/kubernetes (v\S+)`).FindSubmatch(pins)
		if found == nil || string(found[1]) != k.Release || !strings.HasPrefix(k.Release, "v"+k.Minor+".") {
			t.Errorf("%s says it is %s, and pins %s", k.Minor, k.Release, found)
		}
	}
}

func TestChosen(t *testing.T) {
	for minor, want := range map[string]string{"": "v1.37.1", "1.37": "v1.37.1", "1.30": "v1.30.14"} {
		t.Setenv(KubernetesEnv, minor)
		if got := Chosen().Release; got != want {
			t.Errorf("%q chooses %s, want %s", minor, got, want)
		}
	}
	t.Setenv(KubernetesEnv, "1.2")
	if _, err := (Cache{Dir: t.TempDir()}).Path("kube-apiserver"); err == nil || !strings.Contains(err.Error(), "versions/kubernetes-1.2") {
		t.Errorf("a version that labs cannot run: got %v, want an error that names the folder of its pins", err)
	}
}

// TestKubeletIsTheNewest: whatever the control plane is, real nodes have one kubelet.
func TestKubeletIsTheNewest(t *testing.T) {
	before, _ := Find("kubelet")
	t.Setenv(KubernetesEnv, "1.30")
	if after, ok := Find("kubelet"); !ok || after.Module != before.Module || after.LDFlags != before.LDFlags {
		t.Errorf("the kubelet is %+v, want %+v", after, before)
	}
}
