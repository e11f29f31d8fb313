package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.sh/usher/test/fdbreal"
)

// manager is the Deployment that is installed.
func manager(t *testing.T, o Options) *appsv1.Deployment {
	t.Helper()
	for _, object := range objects(t, o) {
		if object.GetKind() == "Deployment" {
			d := &appsv1.Deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, d); err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatal("no manager is installed")
	return nil
}

// The manager gets fdbcli of the image that is named, and is what it was without one but for that.
func TestFDBCLI(t *testing.T) {
	plain, with := manager(t, Options{Image: "usher:v1"}), manager(t, Options{Image: "usher:v1", FDBCLIImage: "foundationdb:7.3.63"})
	pod := &with.Spec.Template.Spec
	if len(plain.Spec.Template.Spec.InitContainers) > 0 || len(pod.InitContainers) != 1 || pod.InitContainers[0].Image != "foundationdb:7.3.63" || pod.Containers[0].Image != "usher:v1" {
		t.Errorf("init containers %+v, containers %+v", pod.InitContainers, pod.Containers)
	}
	c := &pod.Containers[0]
	if !slices.Equal(c.Args, append(plain.Spec.Template.Spec.Containers[0].Args, "--fdbcli=/fdbcli/fdbcli")) {
		t.Errorf("arguments %v", c.Args)
	}
	var writable []string
	for _, m := range c.VolumeMounts {
		if !m.ReadOnly {
			writable = append(writable, m.MountPath)
		}
	}
	if !slices.Equal(writable, []string{"/tmp"}) {
		t.Errorf("it may write to %v", writable)
	}
	for _, s := range []bool{*c.SecurityContext.ReadOnlyRootFilesystem, *pod.InitContainers[0].SecurityContext.ReadOnlyRootFilesystem, *pod.SecurityContext.RunAsNonRoot} {
		if !s {
			t.Error("it may do more than before")
		}
	}
}

// What is copied is all that fdbcli needs: it runs by its own loader and libraries alone.
func TestFDBCLICopy(t *testing.T) {
	bin := fdbreal.Programs()
	if bin == "" {
		t.Skip("SKIPPED, NOT TESTED: there is no fdbcli (set FDB_BIN to a folder with fdbserver, fdbmonitor and fdbcli)")
	}
	into := t.TempDir()
	copying := exec.CommandContext(t.Context(), "sh", "-c", fdbcliCopy, "sh", into)
	copying.Env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}
	if out, err := copying.CombinedOutput(); err != nil || !strings.Contains(string(out), "FoundationDB CLI") {
		t.Fatalf("%v: %s", err, out)
	}
	loaders, err := filepath.Glob(into + "/ld-linux*")
	if err != nil || len(loaders) != 1 {
		t.Fatalf("%v: %v", loaders, err)
	}
	run := exec.CommandContext(t.Context(), loaders[0], "--inhibit-cache", "--library-path", into, into+"/fdbcli", "--version")
	run.Env = []string{}
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "FoundationDB CLI") {
		t.Errorf("%v: %s", err, out)
	}
	listed, err := exec.CommandContext(t.Context(), loaders[0], "--inhibit-cache", "--library-path", into, "--list", into+"/fdbcli").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(listed)) {
		if _, file, is := strings.Cut(line, "=> "); is && !strings.HasPrefix(file, into) {
			t.Errorf("not copied: %s", line)
		}
	}
}
