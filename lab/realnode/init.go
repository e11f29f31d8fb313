package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// initArgument, as first argument, makes any program with this package act as the first process of a node. Tests and
// the lab command both start nodes, and a program of its own would have to be built and kept in step.
const initArgument = "usher-lab-node-init"

// running is what the first process reports when the node runs; anything else is an error.
const running = "running"

// Files that the first process inherits.
const (
	reportFile = 3
	claimFile  = 4
)

func init() {
	if len(os.Args) != 3 || os.Args[1] != initArgument {
		return
	}
	// Kept open here for the claim's sake, but not in kubelet, containerd and what they start.
	unix.CloseOnExec(reportFile)
	unix.CloseOnExec(claimFile)
	report := os.NewFile(reportFile, "report")
	if err := runInit(os.Args[2], report); err != nil {
		fmt.Fprintln(os.Stderr, err)
		fmt.Fprintln(report, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runInit runs the node until SIGTERM or until one of its two programs ends. When it returns and the process ends,
// the kernel ends everything else in the node.
func runInit(dir string, report *os.File) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM)
	p, err := readPlan(dir)
	if err != nil {
		return err
	}
	if err := p.enter(); err != nil {
		return err
	}
	children := newChildren()
	if err := p.startPrograms(children, stop); err != nil {
		return err
	}
	fmt.Fprintln(report, running)
	report.Close()
	for {
		select {
		case <-stop:
			return nil
		case end := <-children.ended:
			if end.name != "" {
				return end.failure()
			}
		}
	}
}

// enter gives the node its own view of the machine: processes, the folders in which its programs have fixed paths, and the network where that is wanted.
func (p plan) enter() error {
	if p.OwnNetwork {
		if err := p.ownNetwork(); err != nil {
			return err
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("leaving the host's mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := p.mountDisk(); err != nil {
		return err
	}
	for _, folder := range hidden {
		if err := unix.Mount(filepath.Join(p.Root, folder), folder, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting the node's %s: %w", folder, err)
		}
	}
	// Volumes with mount propagation need shared mounts; these are shared within the node.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing the node's mounts: %w", err)
	}
	return nil
}

// startPrograms starts containerd, imports the images, and starts the kubelet.
func (p plan) startPrograms(children *children, stop <-chan os.Signal) error {
	ready, err := listenReady()
	if err != nil {
		return err
	}
	if err := children.start(p.containerd(ready.path)); err != nil {
		return err
	}
	if err := children.await("containerd to serve", ready.said, stop); err != nil {
		return err
	}
	for _, archive := range p.Images {
		if err := children.start(p.importImage(archive)); err != nil {
			return err
		}
		if err := children.awaitEnd(stop); err != nil {
			return fmt.Errorf("importing image %s: %w", archive, err)
		}
	}
	return children.start(p.kubelet())
}

func (p plan) containerd(notify string) program {
	return program{
		name: "containerd",
		path: p.Programs.Containerd,
		args: []string{"--config", p.ContainerdConfig},
		env:  []string{"NOTIFY_SOCKET=" + notify, searchPath()},
		log:  p.log("containerd"),
	}
}

func (p plan) importImage(archive string) program {
	return program{
		name: "ctr",
		path: p.Programs.Ctr,
		args: []string{"-n", "k8s.io", "images", "import", archive},
		log:  p.log("ctr"),
	}
}

func (p plan) kubelet() program {
	var labels []string
	for key, value := range p.Labels {
		labels = append(labels, key+"="+value)
	}
	return program{
		name: "kubelet",
		path: p.Programs.Kubelet,
		args: []string{
			"--config=" + p.KubeletConfig,
			"--kubeconfig=" + p.Kubeconfig,
			"--hostname-override=" + p.Name,
			"--node-ip=" + p.Slot.Gateway().String(),
			"--node-labels=" + strings.Join(labels, ","),
			"--root-dir=/var/lib/kubelet",
			"--cert-dir=/var/lib/kubelet/pki",
		},
		env: []string{searchPath()},
		log: p.log("kubelet"),
	}
}

// searchPath adds the folders in which Debian has iptables and mount helpers, and which sudo may have left out.
func searchPath() string { return "PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin" }

func (p plan) log(name string) string { return filepath.Join(p.Logs, p.Name+"-"+name+".log") }

var errStopped = errors.New("stopped before the node was up")
