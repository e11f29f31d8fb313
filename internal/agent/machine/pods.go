package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// podCgroups says how the kubelet names the cgroups of pods.
type podCgroups struct {
	root    string // of all pods
	systemd bool   // names are those of systemd's slices
}

const allPods = "kubepods"

// classes are the kubelet's folders between that of all pods and that of one; Guaranteed pods have none.
var classes = []string{"", "burstable", "besteffort"}

// findPods looks at this process's own cgroup first unless the kubelet's root is named: nodes of one cluster need not have the
// same, and the agents on all of them have one configuration.
func (m *Machine) findPods() (podCgroups, error) {
	root := path.Clean("/" + m.options.CgroupRoot)
	plain := podCgroups{root: path.Join(root, allPods)}
	slices := podCgroups{root: slicePath(append(elements(root), allPods)), systemd: true}
	candidates := []podCgroups{slices, plain}
	if around, ok := m.podsAround(); ok && m.options.CgroupRoot == "" {
		candidates = append([]podCgroups{around}, candidates...)
	}
	for _, candidate := range candidates {
		if info, err := os.Stat(m.tree.memoryFolder(candidate.root)); err == nil && info.IsDir() {
			return candidate, nil
		}
	}
	return podCgroups{}, fmt.Errorf("neither %s nor %s is there: does a kubelet run here, and is %s its cgroupRoot?",
		m.tree.memoryFolder(slices.root), m.tree.memoryFolder(plain.root), root)
}

// podsAround returns the cgroup of all pods that this process's own is in; the innermost, as a node may be a pod itself.
func (m *Machine) podsAround() (podCgroups, bool) {
	cgroup, err := m.ownCgroup()
	if err != nil {
		return podCgroups{}, false
	}
	for ; cgroup != path.Dir(cgroup); cgroup = path.Dir(cgroup) {
		switch name := path.Base(cgroup); {
		case name == allPods:
			return podCgroups{root: cgroup}, true
		case strings.HasSuffix("-"+name, "-"+allPods+".slice"):
			return podCgroups{root: cgroup, systemd: true}, true
		}
	}
	return podCgroups{}, false
}

func elements(cgroup string) []string {
	return strings.FieldsFunc(cgroup, func(r rune) bool { return r == '/' })
}

// slicePath nests slices as systemd does: each carries the names of those around it, so dashes in names become underscores.
func slicePath(names []string) string {
	folder, prefix := "/", ""
	for _, name := range names {
		prefix += strings.ReplaceAll(name, "-", "_")
		folder = path.Join(folder, prefix+".slice")
		prefix += "-"
	}
	return folder
}

// of returns where the cgroup of a pod can be.
func (p podCgroups) of(uid types.UID) []string {
	var all []string
	for _, class := range classes {
		if !p.systemd {
			all = append(all, path.Join(p.root, class, "pod"+string(uid)))
			continue
		}
		folder, prefix := p.root, strings.TrimSuffix(path.Base(p.root), ".slice")
		if class != "" {
			prefix += "-" + class
			folder = path.Join(folder, prefix+".slice")
		}
		all = append(all, path.Join(folder, prefix+"-pod"+strings.ReplaceAll(string(uid), "-", "_")+".slice"))
	}
	return all
}

// ErrNoCgroup says that a pod has no cgroup: it does not run here, or not yet, or not any more.
var ErrNoCgroup = errors.New("the pod has no cgroup on this machine")

// Cgroup returns the cgroup of a pod, or ErrNoCgroup.
func (m *Machine) Cgroup(uid types.UID) (string, error) {
	if uid == "" || strings.ContainsAny(string(uid), "/.") {
		return "", fmt.Errorf("%w: %q is no UID", ErrNoCgroup, uid)
	}
	for _, cgroup := range m.pods.of(uid) {
		_, err := os.Stat(m.tree.memoryFolder(cgroup))
		if err == nil {
			return cgroup, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", ErrNoCgroup
}
