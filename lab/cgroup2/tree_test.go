package cgroup2

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/agent/machine"
)

const mib = 1 << 20

// mounted is where the kernel has its cgroups.
const mounted = "/sys/fs/cgroup"

// style is one of the two ways in which kubelets name cgroups, as found on nodes.
type style struct {
	name      string
	root      string // the kubelet's cgroupRoot
	pods      string // the cgroup of all pods
	burstable func(uid string) string
	container func(id string) string
}

var styles = []style{
	{
		name: "cgroupfs", root: "/lab", pods: "/lab/kubepods",
		burstable: func(uid string) string { return "burstable/pod" + uid },
		container: func(id string) string { return id },
	},
	{
		name: "systemd", root: "/", pods: "/kubepods.slice",
		burstable: func(uid string) string {
			return "kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
		},
		container: func(id string) string { return "cri-containerd-" + id + ".scope" },
	},
}

// inBoth runs a test under both names, on a node without pods.
func inBoth(t *testing.T, test func(t *testing.T, n node)) {
	t.Helper()
	enter(t, grow(t, "/system.slice/usher.service"))
	for _, s := range styles {
		t.Run(s.name, func(t *testing.T) {
			n := node{style: s, folder: grow(t, s.pods)}
			var err error
			if n.machine, err = machine.Open(machine.Options{CgroupRoot: s.root}); err != nil {
				t.Fatal(err)
			}
			if got := n.machine.CgroupVersion(); got != 2 {
				t.Fatalf("cgroup v%d", got)
			}
			if got := n.machine.PodsFolder(); got != n.folder {
				t.Fatalf("pods are looked for in %s, and are in %s", got, n.folder)
			}
			test(t, n)
		})
	}
}

// node is what a kubelet has made.
type node struct {
	style

	machine *machine.Machine
	folder  string // of all pods
}

// pod is one with a single container.
type pod struct {
	uid               types.UID
	id                string // of the container, as the pod's status has it
	folder, container string
}

func (n *node) pod(t *testing.T, number int) pod {
	t.Helper()
	uid := "0a1b2c3d-0000-4000-8000-00000000000" + strconv.Itoa(number)
	id := strings.Repeat("4f1c6c8a", 7) + "0000000" + strconv.Itoa(number)
	folder := filepath.Join(n.pods, n.burstable(uid))
	p := pod{uid: types.UID(uid), id: "containerd://" + id, folder: filepath.Join(mounted, folder)}
	p.container = grow(t, filepath.Join(folder, n.container(id)))
	return p
}

// use reads a pod.
func (n *node) use(t *testing.T, p pod) machine.Use {
	t.Helper()
	use, err := n.machine.Pod(p.uid)
	if err != nil {
		t.Fatal(err)
	}
	return use
}

// grow makes a cgroup and those around it, each with all controllers, as a kubelet wants them.
func grow(t *testing.T, cgroup string) string {
	t.Helper()
	folder := mounted
	for element := range strings.SplitSeq(strings.Trim(cgroup, "/"), "/") {
		put(t, filepath.Join(folder, "cgroup.subtree_control"), "+cpu +io +memory +pids")
		folder = filepath.Join(folder, element)
		if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	return folder
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

// enter moves this process.
func enter(t *testing.T, folder string) {
	t.Helper()
	put(t, filepath.Join(folder, "cgroup.procs"), strconv.Itoa(os.Getpid()))
}

// counter reads a line of a file such as memory.events.
func counter(t *testing.T, name, key string) int64 {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+" "); ok {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no %s:\n%s", name, key, text)
	return 0
}
