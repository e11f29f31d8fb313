package join_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.sh/usher/lab/realnode"
)

// traces is what of a node can be seen on the host.
type traces struct {
	processes, mounts, links, cgroups, files []string
}

func (s traces) kinds() map[string][]string {
	return map[string][]string{
		"processes": s.processes, "mounts": s.mounts, "network links": s.links, "cgroups": s.cgroups, "files": s.files,
	}
}

// testNothingLeft stops the nodes while pods run. Each kind of trace must be seen before, or looking for it afterwards
// would say nothing.
func testNothingLeft(t *testing.T, nodes []*realnode.Node) {
	for _, n := range nodes {
		space := processSpace(t, n)
		links := linksOf(t, n)
		for kind, seen := range find(t, n, space, links).kinds() {
			if len(seen) == 0 {
				t.Errorf("%s runs, and no %s are seen", n.Name, kind)
			}
		}
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
		for kind, left := range find(t, n, space, links).kinds() {
			if len(left) > 0 {
				t.Errorf("%s was stopped and left %s: %v", n.Name, kind, left)
			}
		}
		if err := n.Stop(); err != nil {
			t.Errorf("stopping %s again: %v", n.Name, err)
		}
	}
}

// processSpace identifies the process namespace that only this node's processes are in.
func processSpace(t *testing.T, n *realnode.Node) string {
	t.Helper()
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", n.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return space
}

// linksOf are the bridge and, by name, the host's ends of the pods' links.
func linksOf(t *testing.T, n *realnode.Node) []string {
	t.Helper()
	bridge := n.Slot().Name()
	ports, err := os.ReadDir(filepath.Join("/sys/class/net", bridge, "brif"))
	if err != nil {
		t.Fatal(err)
	}
	if len(ports) == 0 {
		t.Errorf("no pod hangs on bridge %s", bridge)
	}
	names := []string{bridge}
	for _, p := range ports {
		names = append(names, p.Name())
	}
	return names
}

func find(t *testing.T, n *realnode.Node, space string, links []string) traces {
	t.Helper()
	var found traces
	found.processes, found.mounts = findProcesses(t, space)
	for _, name := range links {
		if _, err := net.InterfaceByName(name); err == nil {
			found.links = append(found.links, name)
		}
	}
	found.cgroups = glob(t, "/sys/fs/cgroup/*/"+n.Slot().Name())
	found.cgroups = append(found.cgroups, glob(t, "/sys/fs/cgroup/"+n.Slot().Name())...)
	found.files = append(glob(t, n.Dir), glob(t, filepath.Join(n.Processes, n.Name+".process.json"))...)
	return found
}

// findProcesses finds the processes of the namespace, and the container file systems that they have mounted. The
// host's own mounts are looked at too, where a node must never leave any.
func findProcesses(t *testing.T, space string) (processes, mounts []string) {
	t.Helper()
	for _, dir := range glob(t, "/proc/[0-9]*") {
		if got, err := os.Readlink(filepath.Join(dir, "ns", "pid")); err == nil && got == space {
			processes = append(processes, filepath.Base(dir))
			mounts = append(mounts, overlays(t, dir)...)
		}
	}
	return processes, append(mounts, overlays(t, "/proc/self")...)
}

func overlays(t *testing.T, process string) []string {
	t.Helper()
	table, err := os.ReadFile(filepath.Join(process, "mounts"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, "io.containerd.snapshotter") {
			found = append(found, line)
		}
	}
	return found
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
