package cgroup2

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"golang.org/x/sys/unix"

	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/kernel"
)

// programs are those of a node.
type programs struct{ Kubelet, Containerd, Shim, Ctr, Runc string }

func findPrograms(t *testing.T) programs {
	t.Helper()
	cache, err := binaries.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	var found programs
	for name, path := range map[string]*string{
		"kubelet": &found.Kubelet, "containerd": &found.Containerd, "containerd-shim-runc-v2": &found.Shim, "ctr": &found.Ctr,
	} {
		if *path, err = cache.Path(name); err != nil {
			t.Skipf("SKIPPED, NOT TESTED: %s is not built: run `go run -C lab ./cmd/lab build --real` (once, some minutes)", name)
		}
	}
	if found.Runc, err = exec.LookPath("runc"); err != nil {
		t.Skip("SKIPPED, NOT TESTED: this needs runc: apt-get install runc")
	}
	return found
}

// prepareNode makes what cannot be made in the kernel, where there is no compiler.
func prepareNode(t *testing.T) func(share string) {
	t.Helper()
	return func(share string) {
		findPrograms(t)
		if _, err := image.Make(t.Context(), share); err != nil {
			t.Fatal(err)
		}
	}
}

const containerdConfig = `version = 3
imports = []
disabled_plugins = ["io.containerd.nri.v1.nri"]
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "` + image.Name + `"
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/run/none"]
conf_dir = "/run/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = "{{.Shim}}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{{.Runc}}"
[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"
`

// The kubelet runs by itself: it takes its pods from a folder.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
readOnlyPort: 10255
healthzPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /lab
failSwapOn: false
makeIPTablesUtilChains: false
resolvConf: ""
enforceNodeAllocatable: [pods]
evictionHard: {memory.available: 10Mi}
staticPodPath: /run/pods
`

// takes is the memory that the pod takes, in MiB.
const takes = "40"

const staticPod = `apiVersion: v1
kind: Pod
metadata: {name: taker, namespace: default}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: ` + image.Name + `
    imagePullPolicy: Never
    args: ["-listen=127.0.0.1:8080", "-memory-mib=` + takes + `"]
    resources: {requests: {memory: 32Mi}, limits: {memory: 100Mi}}
`

// startNode makes the kernel a node.
func startNode(t *testing.T) {
	t.Helper()
	p := findPrograms(t)
	loadOverlay(t)
	for _, folder := range []string{"/run", "/var/lib", "/var/log"} {
		if err := unix.Mount("node", folder, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	giveClock(t)
	grow(t, "/lab/kubepods")
	var config bytes.Buffer
	if err := template.Must(template.New("").Parse(containerdConfig)).Execute(&config, p); err != nil {
		t.Fatal(err)
	}
	write(t, "/run/containerd.toml", config.String())
	write(t, "/run/kubelet.yaml", kubeletConfig)
	write(t, "/run/pods/taker.yaml", staticPod)
	startContainerd(t, p)
	if said, err := exec.CommandContext(t.Context(), p.Ctr, "-n", "k8s.io", "images", "import", filepath.Join(kernel.Share, "workload.tar")).CombinedOutput(); err != nil {
		t.Fatalf("importing the image: %v\n%s", err, said)
	}
	start(t, nil, p.Kubelet, "--config=/run/kubelet.yaml", "--hostname-override=here", "--root-dir=/var/lib/kubelet", "--cert-dir=/var/lib/kubelet/pki")
}

// loadOverlay loads the module that containers need and user-mode Linux does not have built in.
func loadOverlay(t *testing.T) {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	module, err := os.Open(filepath.Join("/usr/lib/uml/modules", unix.ByteSliceToString(name.Release[:]), "kernel/fs/overlayfs/overlay.ko"))
	if err != nil {
		t.Fatal(err)
	}
	defer module.Close()
	if err := unix.FinitModule(int(module.Fd()), "", 0); err != nil {
		t.Fatal(err)
	}
}

// giveClock names the clock rate of the processor, which this kernel does not know and without which no kubelet starts.
func giveClock(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	write(t, "/run/cpuinfo", string(text)+"cpu MHz\t\t: 2000.000\n")
	if err := unix.Mount("/run/cpuinfo", "/proc/cpuinfo", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start starts a program that runs until the test ends, and shows the end of what it said if that fails.
func start(t *testing.T, environment []string, program string, arguments ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, arguments...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		text, _ := os.ReadFile(log.Name())
		if t.Failed() {
			t.Logf("the end of what %s said:\n%s", filepath.Base(program), text[max(0, len(text)-4000):])
		}
	})
}

// startContainerd returns when containerd serves.
func startContainerd(t *testing.T, p programs) {
	t.Helper()
	const socket = "/run/ready"
	ready, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	start(t, []string{"NOTIFY_SOCKET=" + socket}, p.Containerd, "--config", "/run/containerd.toml")
	for said := make([]byte, 1024); ; {
		n, err := ready.Read(said)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(said[:n]), "READY=1") {
			return
		}
	}
}
