package machine

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
)

// Options say where to look. The zero value is right on a usual node.
type Options struct {
	// CgroupRoot is the kubelet's cgroupRoot: the cgroup in which that of all pods is. Default: the one around the pod that
	// this process runs in, or else "/".
	CgroupRoot string
	// HostRoot is where the host's files are seen. Default "/".
	HostRoot string
	// KubeletDir is the kubelet's root directory on the host. Default defaultKubeletDir.
	KubeletDir string

	// Root is where the kernel's files are seen: /proc and what is mounted. Default "/"; tests read recorded ones.
	Root string
}

// defaultKubeletDir is where a kubelet keeps its files unless it is configured otherwise.
const defaultKubeletDir = "/var/lib/kubelet"

// logDir is where the logs of pods are, each pod's in a folder of its own.
const logDir = "/var/log/pods"

// imageDirs are where container runtimes keep images and writable layers.
var imageDirs = []string{"/var/lib/containerd", "/var/lib/containers/storage", "/var/lib/docker"}

// Machine is this machine. What it knows is found out once, by Open; it may be used by several goroutines at once.
type Machine struct {
	options Options
	tree    tree
	pods    podCgroups
	images  string // "" if no runtime's folder was found
}

// Open finds out where things are. It fails where there are no cgroups, or none for pods.
func Open(o Options) (*Machine, error) {
	o.HostRoot = cmp.Or(o.HostRoot, "/")
	o.KubeletDir = cmp.Or(o.KubeletDir, defaultKubeletDir)
	m := &Machine{options: o}
	var err error
	if m.tree, err = findTree(o.Root); err != nil {
		return nil, fmt.Errorf("finding cgroups: %w", err)
	}
	if m.pods, err = m.findPods(); err != nil {
		return nil, fmt.Errorf("finding the cgroup of all pods: %w", err)
	}
	m.images = m.findImages()
	return m, nil
}

func (m *Machine) findImages() string {
	for _, folder := range imageDirs {
		if info, err := os.Stat(m.hostPath(folder)); err == nil && info.IsDir() {
			return m.hostPath(folder)
		}
	}
	return ""
}

// hostPath is where a path of the host is seen.
func (m *Machine) hostPath(path string) string {
	return filepath.Join(m.options.HostRoot, path)
}

func (m *Machine) proc(name string) string {
	return filepath.Join(cmp.Or(m.options.Root, "/"), "proc", name)
}

// CgroupVersion is 1 or 2.
func (m *Machine) CgroupVersion() int {
	if m.tree.unified {
		return 2
	}
	return 1
}

// PodsFolder is the folder of the cgroup of all pods in the hierarchy of memory.
func (m *Machine) PodsFolder() string { return m.tree.memoryFolder(m.pods.root) }

// RootFolder is the folder of the cgroup of the whole machine in the hierarchy of memory.
func (m *Machine) RootFolder() string { return m.tree.memoryFolder("/") }

// ProcFolder is where /proc is seen.
func (m *Machine) ProcFolder() string { return m.proc("") }

// KubeletConfigFile is where kubeadm, and many others, put the kubelet's configuration.
func (m *Machine) KubeletConfigFile() string {
	return m.hostPath(filepath.Join(m.options.KubeletDir, "config.yaml"))
}
