package machine

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// files are what a recorded machine has below its root.
type files map[string]string

func (f files) with(more files) files {
	all := maps.Clone(f)
	maps.Copy(all, more)
	return all
}

// lay writes files and returns their root.
func (f files) lay(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range f {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func open(t *testing.T, f files, o Options) *Machine {
	t.Helper()
	o.Root = f.lay(t)
	o.HostRoot = o.Root
	m, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const (
	uid           = "0a1b2c3d-0000-4000-8000-000000000001"
	uidSlice      = "0a1b2c3d_0000_4000_8000_000000000001"
	container     = "4f1c6c8a9d3e"
	guaranteedUID = "0a1b2c3d-0000-4000-8000-000000000002"
)

var self = strconv.Itoa(os.Getpid())

var proc = files{
	"proc/meminfo":                "MemTotal:        8000000 kB\nMemFree:         1000000 kB\nSwapTotal:        500000 kB\nHugetlb:               0 kB\n",
	"proc/sys/kernel/pid_max":     "4194304\n",
	"proc/sys/kernel/threads-max": "31000\n",
	"proc/loadavg":                "0.25 0.50 1.75 2/960 9769\n",
	"proc/self/cgroup":            "0::/system.slice/usher.service\n",
	"sys/fs/cgroup/system.slice/usher.service/cgroup.procs": self + "\n",
	"var/lib/kubelet/pods/":                                 "",
	"var/lib/containerd/":                                   "",
}

// systemdV2 is what a node of kubeadm on a distribution of these years looks like: cgroup v2, names of systemd.
var systemdV2 = proc.with(files{
	"proc/self/mounts":                     "sysfs /sys sysfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0\n",
	"sys/fs/cgroup/cgroup.controllers":     "cpuset cpu io memory hugetlb pids rdma misc\n",
	"sys/fs/cgroup/memory.stat":            "anon 2000000000\nfile 1500000000\nkernel 300000000\nfile_mapped 100000000\ninactive_anon 5\ninactive_file 500000000\nactive_file 900000000\n",
	"sys/fs/cgroup/kubepods.slice/x":       "",
	kubepodsV2 + "/memory.current":         "1800000000\n",
	kubepodsV2 + "/memory.max":             "7000000000\n",
	kubepodsV2 + "/memory.stat":            "anon 1500000000\nfile 250000000\nfile_mapped 60000000\ninactive_file 200000000\n",
	kubepodsV2 + "/memory.events":          "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n",
	burstableV2 + "/memory.current":        "300000000\n",
	burstableV2 + "/memory.max":            "max\n",
	burstableV2 + "/memory.stat":           "anon 200000000\nfile 90000000\nfile_mapped 10000000\ninactive_file 50000000\n",
	burstableV2 + "/memory.swap.current":   "7000000\n",
	burstableV2 + "/pids.current":          "17\n",
	burstableV2 + "/cgroup.procs":          "",
	containerV2 + "/memory.current":        "250000000\n",
	containerV2 + "/memory.max":            "400000000\n",
	containerV2 + "/memory.stat":           "anon 190000000\nfile 40000000\nfile_mapped 5000000\ninactive_file 10000000\n",
	containerV2 + "/cgroup.procs":          "101\n102\n",
	guaranteedV2 + "/memory.current":       "64000000\n",
	guaranteedV2 + "/memory.max":           "128000000\n",
	guaranteedV2 + "/memory.stat":          "anon 60000000\nfile 0\ninactive_file 0\n",
	guaranteedV2 + "/cgroup.procs":         "",
	guaranteedV2 + "/cri-o-abc.scope/x":    "",
	kubepodsV2 + "/kubepods-other.slice/x": "",
})

const (
	kubepodsV2   = "sys/fs/cgroup/kubepods.slice"
	burstableV2  = kubepodsV2 + "/kubepods-burstable.slice/kubepods-burstable-pod" + uidSlice + ".slice"
	containerV2  = burstableV2 + "/cri-containerd-" + container + ".scope"
	guaranteedV2 = kubepodsV2 + "/kubepods-pod0a1b2c3d_0000_4000_8000_000000000002.slice"
)

// plainV1 has cgroup v1 with each controller in a place of its own, an empty v2 tree beside, and names of cgroupfs.
var plainV1 = proc.with(files{
	"proc/self/mounts": "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n" +
		"cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n" +
		"cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu,cpuacct 0 0\n" +
		"cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n" +
		"cgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0\n",
	"proc/self/cgroup": "8:pids:/\n4:memory:/system/usher\n0::/\n",
	"sys/fs/cgroup/memory/system/usher/cgroup.procs":                         self + "\n",
	"sys/fs/cgroup/unified/cgroup.controllers":                               "\n",
	"sys/fs/cgroup/memory/memory.usage_in_bytes":                             "5000000000\n",
	"sys/fs/cgroup/memory/memory.limit_in_bytes":                             "9223372036854771712\n",
	"sys/fs/cgroup/memory/memory.stat":                                       "cache 1\nrss 1\ninactive_file 7\ntotal_rss 2000000000\ntotal_mapped_file 100000000\ntotal_swap 0\ntotal_inactive_file 1000000000\n",
	"sys/fs/cgroup/memory/lab/kubepods/" + "x":                               "",
	"sys/fs/cgroup/pids/lab/kubepods/pod" + uid + "/x":                       "",
	kubepodsV1 + "/memory.usage_in_bytes":                                    "900000000\n",
	kubepodsV1 + "/memory.limit_in_bytes":                                    "18446744073709551615\n",
	kubepodsV1 + "/memory.stat":                                              "total_inactive_file 100000000\n",
	podV1 + "/memory.usage_in_bytes":                                         "300000000\n",
	podV1 + "/memory.limit_in_bytes":                                         "400000000\n",
	podV1 + "/memory.stat":                                                   "total_rss 200000000\ntotal_mapped_file 10000000\ntotal_swap 5\ntotal_inactive_file 350000000\n",
	podV1 + "/" + container + "/memory.usage_in_bytes":                       "250000000\n",
	podV1 + "/" + container + "/memory.limit_in_bytes":                       "9223372036854771712\n",
	podV1 + "/" + container + "/memory.stat":                                 "total_rss 1\ntotal_inactive_file 0\n",
	"sys/fs/cgroup/pids/lab/kubepods/besteffort/pod" + uid + "/pids.current": "9\n",
})

const (
	kubepodsV1 = "sys/fs/cgroup/memory/lab/kubepods"
	podV1      = kubepodsV1 + "/besteffort/pod" + uid
)
