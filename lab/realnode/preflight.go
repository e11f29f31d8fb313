package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"usher.sh/usher/lab/binaries"
)

// tools are the programs of the host that a node uses.
type tools struct {
	Runc string // path
	CNI  string // folder with the plugins
}

const install = "apt-get install runc containernetworking-plugins"

// Preflight finds out whether this machine can run real nodes, before anything is started. The error names all that
// is missing, each with how to get it.
func Preflight(cache binaries.Cache) error {
	_, err := findTools(cache)
	return err
}

func findTools(cache binaries.Cache) (tools, error) {
	if runtime.GOOS != "linux" {
		return tools{}, errors.New("real nodes need Linux; simulated nodes work here")
	}
	var found tools
	var missing []error
	note := func(err error) {
		if err != nil {
			missing = append(missing, err)
		}
	}
	var err error
	note(checkRoot())
	found.Runc, err = findRunc()
	note(err)
	found.CNI, err = findPlugins(pluginFolders)
	note(err)
	note(checkOverlay())
	note(checkCgroups())
	note(checkBuilt(cache))
	if missing == nil {
		return found, nil
	}
	var text strings.Builder
	text.WriteString("this machine cannot run real nodes yet:")
	for _, m := range missing {
		fmt.Fprintf(&text, "\n- %s", m)
	}
	return tools{}, errors.New(text.String())
}

func checkRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("not root: namespaces, mounts and cgroups need it; run the command with sudo")
	}
	return nil
}

func findRunc() (string, error) {
	path, err := exec.LookPath("runc")
	if err != nil {
		return "", fmt.Errorf("runc is not in PATH: %s", install)
	}
	return filepath.Abs(path)
}

// pluginFolders are where Debian's package and other installers put CNI plugins.
var pluginFolders = []string{"/usr/lib/cni", "/opt/cni/bin"}

func findPlugins(folders []string) (string, error) {
	needed := []string{"bridge", "host-local", "loopback"}
	for _, folder := range folders {
		if lacking(folder, needed) == nil {
			return folder, nil
		}
	}
	return "", fmt.Errorf("the CNI plugins %s are not all in one of %s: %s",
		strings.Join(needed, ", "), strings.Join(folders, ", "), install)
}

func lacking(folder string, names []string) []string {
	var lacks []string
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			lacks = append(lacks, name)
		}
	}
	return lacks
}

func checkOverlay() error {
	known, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return fmt.Errorf("the kernel's file systems cannot be read: %w", err)
	}
	if !strings.Contains(string(known), "\toverlay\n") {
		return errors.New("the kernel has no overlay file system: modprobe overlay")
	}
	return nil
}

func checkCgroups() error {
	hierarchies, err := findHierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := unix.Access(h.path, unix.W_OK); err != nil {
			return fmt.Errorf("the cgroups in %s cannot be written (%w): in a container, run it privileged", h.path, err)
		}
	}
	return nil
}

func checkBuilt(cache binaries.Cache) error {
	for _, b := range binaries.Real() {
		if _, err := cache.Path(b.Name); err != nil {
			return fmt.Errorf("%s is not built: run `go run -C lab ./cmd/lab build --real` (once, some minutes)", b.Name)
		}
	}
	return nil
}

// mayLowerOOMScores reports whether this process has CAP_SYS_RESOURCE.
func mayLowerOOMScores() (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false, fmt.Errorf("reading capabilities: %w", err)
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0, nil
}

// leastRoom is how much of a disk must be free for real nodes, in bytes: what their kubelets keep free (1 GiB, files/kubelet.yaml)
// and what several nodes unpack and log.
const leastRoom = 4 << 30

// CheckRoom returns an error where the disk that holds dir has so little room that kubelets would report DiskPressure and no
// pod would get onto their nodes.
func CheckRoom(dir string) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("looking at the disk of %s: %w", dir, err)
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < leastRoom {
		return fmt.Errorf("the disk that holds %s has %d MiB free, and real nodes need %d: kubelets would report DiskPressure and pods stay pending; make room", dir, free>>20, leastRoom>>20)
	}
	return nil
}
