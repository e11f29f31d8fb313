package machine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestMemoryOfTheMachine(t *testing.T) {
	const total = 8000000 * 1024
	tests := []struct {
		name string
		m    *Machine
		ws   int64
		huge int64
	}{
		{"v2 takes anon and file of the root, less inactive file", open(t, systemdV2, Options{}), 2000000000 + 1500000000 - 500000000, 0},
		{"v1 takes usage, less all inactive file", open(t, plainV1, Options{CgroupRoot: "/lab"}), 4000000000, 0},
		{
			"huge pages do not count",
			open(t, systemdV2.with(files{"proc/meminfo": "MemTotal: 8000000 kB\nHugetlb: 1000000 kB\n"}), Options{}), 3000000000, 1000000 * 1024,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, used, err := tt.m.Memory()
			want := Amount{Available: total - tt.ws - tt.huge, Capacity: total - tt.huge}
			if err != nil || got != want || used.WorkingSet != tt.ws {
				t.Errorf("got %+v, %+v, %v; want %+v", got, used, err, want)
			}
		})
	}
}

func TestMemoryOfAllPods(t *testing.T) {
	got, _, err := open(t, systemdV2, Options{}).PodsMemory()
	if want := (Amount{Available: 7000000000 - 1600000000, Capacity: 7000000000}); err != nil || got != want {
		t.Errorf("v2: got %+v, %v; want %+v", got, err, want)
	}
	got, used, err := open(t, plainV1, Options{CgroupRoot: "lab/"}).PodsMemory()
	if err != nil || got.Capacity != 0 || used.WorkingSet != 800000000 {
		t.Errorf("v1 without a limit: got %+v, %+v, %v", got, used, err)
	}
}

func TestUseOfPods(t *testing.T) {
	v2, v1 := open(t, systemdV2, Options{}), open(t, plainV1, Options{CgroupRoot: "/lab"})
	tests := []struct {
		name string
		m    *Machine
		uid  types.UID
		want Use
		err  error
	}{
		{"burstable, v2 and systemd", v2, uid, Use{Memory{300000000, 250000000, 0, 217000000}, 17}, nil},
		{"guaranteed lies beside the classes, and has no count of pids", v2, guaranteedUID, Use{Memory{64000000, 64000000, 128000000, 60000000}, -1}, nil},
		{"best effort, v1 and cgroupfs; the working set is never below nothing", v1, uid, Use{Memory{300000000, 0, 400000000, 210000005}, 9}, nil},
		{"one that is not here", v1, guaranteedUID, Use{}, ErrNoCgroup},
		{"no UID", v2, "", Use{}, ErrNoCgroup},
		{"a remedy", v2, "../..", Use{}, ErrNoCgroup},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.m.Pod(tt.uid)
			if !errors.Is(err, tt.err) {
				t.Fatalf("got %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUseOfContainers(t *testing.T) {
	v2, v1 := open(t, systemdV2, Options{}), open(t, plainV1, Options{CgroupRoot: "/lab"})
	if got, err := v2.Container(uid, "containerd://"+container); err != nil || got.WorkingSet != 240000000 || got.Limit != 400000000 {
		t.Errorf("v2: %+v, %v", got, err)
	}
	if got, err := v1.Container(uid, "containerd://"+container); err != nil || got.WorkingSet != 250000000 || got.Limit != 0 {
		t.Errorf("v1: %+v, %v", got, err)
	}
	for _, id := range []string{"", "containerd://", "containerd://other", container, "containerd://../" + container} {
		if got, err := v2.Container(uid, id); !errors.Is(err, ErrNoCgroup) {
			t.Errorf("container %q: %+v, %v", id, got, err)
		}
	}
}

func TestPIDs(t *testing.T) {
	got, err := open(t, systemdV2, Options{}).PIDs()
	if want := (Amount{Available: 31000 - 960, Capacity: 31000}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestDisks(t *testing.T) {
	m := open(t, systemdV2, Options{})
	node, err := m.NodeFS()
	if err != nil || node.Bytes.Capacity == 0 || node.Bytes.Available > node.Bytes.Capacity {
		t.Errorf("got %+v, %v", node, err)
	}
	images, found, err := m.ImageFS()
	if err != nil || !found || images.Bytes.Capacity != node.Bytes.Capacity {
		t.Errorf("got %+v, %t, %v", images, found, err)
	}
	if dedicated, err := m.DedicatedImages(); err != nil || dedicated {
		t.Errorf("got %t, %v", dedicated, err)
	}
}

// TestSlices: the names are those that the kubelet gives systemd.
func TestSlices(t *testing.T) {
	tests := map[string]string{
		"/":         "/kubepods.slice",
		"/lab":      "/lab.slice/lab-kubepods.slice",
		"/my-lab/b": "/my_lab.slice/my_lab-b.slice/my_lab-b-kubepods.slice",
	}
	for root, want := range tests {
		if got := slicePath(append(elements(root), allPods)); got != want {
			t.Errorf("%s: %s, want %s", root, got, want)
		}
	}
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	tests := []struct {
		name  string
		files files
		o     Options
		want  string
	}{
		{"no cgroups", proc.with(files{"proc/self/mounts": "proc /proc proc rw 0 0\n"}), Options{}, "no cgroups with the memory controller are mounted"},
		{"v2 without the memory controller", systemdV2.with(files{"sys/fs/cgroup/cgroup.controllers": "cpu\n"}), Options{}, "memory controller"},
		{"another root", systemdV2, Options{CgroupRoot: "/lab"}, "is /lab its cgroupRoot?"},
		{"no mounts", proc, Options{}, "finding cgroups"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Root = tt.files.lay(t)
			_, err := Open(tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestPodsAround: an agent on every node is not configured with each kubelet's cgroupRoot.
func TestPodsAround(t *testing.T) {
	in := func(f files, cgroup string) files { return f.with(files{"proc/self/cgroup": cgroup + "\n"}) }
	kind := systemdV2.with(files{"sys/fs/cgroup/kubelet.slice/kubelet-kubepods.slice/x": ""})
	nested := plainV1.with(files{"sys/fs/cgroup/memory/kubepods/x": "", "sys/fs/cgroup/memory/kubepods/pod1/abc/kubelet/kubepods/x": ""})
	tests := []struct {
		name string
		f    files
		o    Options
		want string
	}{
		{"cgroupfs", in(plainV1, "4:memory:/lab/kubepods/besteffort/pod"+uid+"/abc"), Options{}, "memory/lab/kubepods"},
		{"systemd", in(kind, "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod"+uidSlice+".slice/cri-containerd-abc.scope"), Options{}, "kubelet.slice/kubelet-kubepods.slice"},
		{"the usual root", in(systemdV2, "0::/kubepods.slice/kubepods-pod"+uidSlice+".slice/cri-containerd-abc.scope"), Options{}, "kubepods.slice"},
		{"a node that is a pod", in(nested, "4:memory:/kubepods/pod1/abc/kubelet/kubepods/pod"+uid+"/abc"), Options{}, "memory/kubepods/pod1/abc/kubelet/kubepods"},
		{"in no pod", kind, Options{}, "kubepods.slice"},
		{"in a pod of what is not seen here", in(systemdV2, "0::/lab/kubepods/pod"+uid+"/abc"), Options{}, "kubepods.slice"},
		{"what is named counts", in(kind, "0::/kubelet.slice/kubelet-kubepods.slice/x"), Options{CgroupRoot: "/"}, "kubepods.slice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := open(t, tt.f, tt.o)
			if want := filepath.Join(m.options.Root, "sys/fs/cgroup", tt.want); m.PodsFolder() != want {
				t.Errorf("%s, want %s", m.PodsFolder(), want)
			}
		})
	}
}

// TestBrokenFiles: what cannot be understood is an error and never a number.
func TestBrokenFiles(t *testing.T) {
	tests := map[string]files{
		"words for a number": {kubepodsV2 + "/memory.current": "lots\n"},
		"an empty file":      {kubepodsV2 + "/memory.current": ""},
		"a broken statistic": {kubepodsV2 + "/memory.stat": "anon 1\ninactive_file many\n"},
		"a broken limit":     {kubepodsV2 + "/memory.max": "much\n"},
	}
	for name, broken := range tests {
		t.Run(name, func(t *testing.T) {
			if got, _, err := open(t, systemdV2.with(broken), Options{}).PodsMemory(); err == nil {
				t.Errorf("got %+v", got)
			}
		})
	}
	m := open(t, systemdV2.with(files{"proc/meminfo": "MemFree: 1 kB\n", "proc/loadavg": "0 0 0\n"}), Options{})
	if got, _, err := m.Memory(); err == nil {
		t.Errorf("without MemTotal: %+v", got)
	}
	if got, err := m.PIDs(); err == nil {
		t.Errorf("without a count of threads: %+v", got)
	}
}

func TestOwn(t *testing.T) {
	tests := []struct {
		name string
		f    files
		o    Options
		want types.UID
	}{
		{"systemd", systemdV2.with(files{"proc/self/cgroup": "0::/" + strings.TrimPrefix(containerV2, "sys/fs/cgroup/") + "\n"}), Options{}, uid},
		{"cgroupfs", plainV1.with(files{"proc/self/cgroup": "4:memory:/lab/kubepods/besteffort/pod" + uid + "/abc\n"}), Options{CgroupRoot: "/lab"}, uid},
		{"in no pod", systemdV2, Options{}, ""},
		{"another tree", plainV1.with(files{"proc/self/cgroup": "4:memory:/kubepods/pod" + uid + "\n"}), Options{CgroupRoot: "/lab"}, ""},
		{"in a view of its own", systemdV2.with(files{"proc/self/cgroup": "0::/\n"}), Options{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := open(t, tt.f, tt.o).Own(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestLayersAndDisk(t *testing.T) {
	f := systemdV2.with(files{
		"proc/101/mountinfo": "700 600 0:50 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/a:/b,upperdir=/var/lib/containerd/snapshots/7/fs,workdir=/w\n" +
			"701 700 0:51 / /proc rw - proc proc rw\n",
		"proc/102/mountinfo":                                                                  "700 600 0:50 / / rw - ext4 /dev/vda rw\n",
		"var/lib/containerd/snapshots/7/fs/tmp/data":                                          strings.Repeat("x", 100_000),
		"var/log/pods/shop_web-0_" + uid + "/c/0.log":                                         strings.Repeat("l", 9000),
		"var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~empty-dir/scratch/a":          strings.Repeat("a", 50_000),
		"var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~secret/token/not-this":        strings.Repeat("s", 50_000),
		"var/lib/kubelet/pods/" + guaranteedUID + "/volumes/kubernetes.io~empty-dir/b/others": strings.Repeat("a", 50_000),
	})
	m := open(t, f, Options{})
	volumes := m.hostPath("/var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~empty-dir/scratch")
	if err := os.Link(filepath.Join(volumes, "a"), filepath.Join(volumes, "same")); err != nil {
		t.Fatal(err)
	}
	got, err := m.Disk(t.Context(), "shop", "web-0", uid)
	if err != nil {
		t.Fatal(err)
	}
	inodes := [3]int64{got.Logs.Inodes, got.Volumes.Inodes, got.Layers.Inodes}
	if want := [3]int64{3, 3, 3}; inodes != want {
		t.Errorf("inodes of logs, volumes and layers: %v, want %v", inodes, want)
	}
	for name, pair := range map[string][2]int64{
		"logs": {got.Logs.Bytes, 9000}, "volumes, the hard link counted once": {got.Volumes.Bytes, 50_000}, "layers": {got.Layers.Bytes, 100_000},
	} {
		if pair[0] < pair[1] || pair[0] > pair[1]+5*4096 {
			t.Errorf("%s: %d bytes, want about %d", name, pair[0], pair[1])
		}
	}
	if none, err := m.Disk(t.Context(), "shop", "gone", "f0000000-0000-4000-8000-000000000009"); err != nil || none != (Disk{}) {
		t.Errorf("a pod that is gone: %+v, %v", none, err)
	}
}
