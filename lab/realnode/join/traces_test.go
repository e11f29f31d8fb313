package join_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"usher.sh/usher/lab/realnode"
)

// traces is what of a node can be seen on the host, by kind. Each carries an identity that is not used again, because
// the next node may take over names and numbers at once.
type traces map[string][]string

// testNothingLeft stops the nodes while pods run. Each kind of trace must be seen before, or looking for it afterwards
// would say nothing.
func testNothingLeft(t *testing.T, nodes []*realnode.Node) {
	t.Helper()
	for _, n := range nodes {
		before := find(t, n)
		for kind, seen := range before {
			if len(seen) == 0 {
				t.Errorf("%s runs, and no %s are seen", n.Name, kind)
			}
		}
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
		for kind, left := range remaining(t, before) {
			t.Errorf("%s was stopped and left %s: %v", n.Name, kind, left)
		}
		for _, line := range mounts(t, "/proc/self", n) {
			t.Errorf("%s was stopped and left a mount: %s", n.Name, line)
		}
		if err := n.Stop(); err != nil {
			t.Errorf("stopping %s again: %v", n.Name, err)
		}
	}
}

func find(t *testing.T, n *realnode.Node) traces {
	t.Helper()
	slot := n.Slot().Name()
	found := traces{
		"network links": append(glob(t, "/sys/class/net/"+slot), glob(t, "/sys/class/net/"+slot+"/brif/*")...),
		"cgroups":       append(glob(t, "/sys/fs/cgroup/*/"+slot), glob(t, "/sys/fs/cgroup/"+slot)...),
		"files":         append(glob(t, n.Dir), glob(t, filepath.Join(n.Processes, n.Name+".process.json"))...),
	}
	for i, path := range found["network links"] {
		found["network links"][i] = filepath.Join("/sys/class/net", filepath.Base(path), "ifindex")
	}
	own, pods := processes(t, n)
	found["processes of the node"], found["processes of pods"] = own, pods
	for kind, paths := range found {
		for i, path := range paths {
			paths[i] = path + " " + identity(path)
		}
		found[kind] = paths
	}
	if lines := mounts(t, fmt.Sprintf("/proc/%d", n.PID()), n); len(lines) == 0 {
		t.Errorf("%s runs, and has no mounts of its own", n.Name)
	}
	return found
}

// remaining are those traces that are still there, as they were.
func remaining(t *testing.T, before traces) traces {
	t.Helper()
	left := traces{}
	for kind, all := range before {
		for _, trace := range all {
			path, was, _ := strings.Cut(trace, " ")
			if now := identity(path); now != "" && now == was {
				left[kind] = append(left[kind], path)
			}
		}
	}
	return left
}

// identity distinguishes what had the same path at different times: a number of the kernel for links, the start time for
// processes, the inode for all else. It is empty where nothing is.
func identity(path string) string {
	switch filepath.Base(path) {
	case "ifindex":
		index, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(index))
	case "stat":
		stat, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
		return fields[20]
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(stat.Ino)
}

// processes finds those in the node's own namespace, and, in namespaces below it, those in the node's cgroups.
func processes(t *testing.T, n *realnode.Node) (own, pods []string) {
	t.Helper()
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", n.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range glob(t, "/proc/[0-9]*") {
		if got, err := os.Readlink(filepath.Join(dir, "ns/pid")); err == nil && got == space {
			own = append(own, filepath.Join(dir, "stat"))
		}
		groups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err == nil && strings.Contains(string(groups), "/"+n.Slot().Name()+"/") {
			pods = append(pods, filepath.Join(dir, "stat"))
		}
	}
	return own, pods
}

// mounts are those that show the node's folders somewhere, as a process sees them.
func mounts(t *testing.T, process string, n *realnode.Node) []string {
	t.Helper()
	table, err := os.ReadFile(filepath.Join(process, "mountinfo"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, "/"+filepath.Base(n.Dir)+"/") {
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
