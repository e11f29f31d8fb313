package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Nothing of the machine's is hidden by these: its source tree and its programs may be anywhere, also in /tmp.
const (
	// Share is, in the kernel, a folder on the machine's disk.
	Share = "/dev/share"

	temporary = "/dev/shm"
)

// outputFile is what the test says, in Share.
const outputFile = "output"

func inside() bool { return os.Getenv(testVariable) != "" }

// Any test binary with this package can be the first process: one of its own would have to be built and kept in step.
func init() {
	if !inside() || os.Getpid() != 1 {
		return
	}
	err := settle()
	if err == nil {
		err = run(os.Getenv(testVariable))
	}
	if err != nil {
		fmt.Println(err)
	}
	unix.Sync()
	err = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	fmt.Println("turning the kernel off:", err)
	os.Exit(1)
}

// settle sets up what programs expect.
func settle() error {
	for _, m := range []struct{ kind, folder, data string }{
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"cgroup2", "/sys/fs/cgroup", ""},
		{"tmpfs", temporary, ""},
		{"hostfs", Share, os.Getenv(shareVariable)},
	} {
		if err := os.MkdirAll(m.folder, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.folder, m.kind, 0, m.data); err != nil {
			return fmt.Errorf("mounting %s: %w", m.folder, err)
		}
	}
	return online()
}

// online lets programs listen on loopback, which is all the network there is.
func online() error {
	loopback, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(loopback)
	}
	if err != nil {
		return fmt.Errorf("setting up loopback: %w", err)
	}
	return nil
}

// run runs a test in a process of its own, and waits, as the first process has to, for all that lose their parent.
func run(test string) error {
	out, err := os.Create(filepath.Join(Share, outputFile))
	if err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	const soonerThanPatience = "-test.timeout=9m" // so that it says where it hangs
	started, err := os.StartProcess("/proc/self/exe", []string{"test", "-test.v", soonerThanPatience, "-test.run=^" + test + "$"}, &os.ProcAttr{
		Env:   append(os.Environ(), "TMPDIR="+temporary, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
		Files: []*os.File{null, out, out},
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w", test, err)
	}
	for {
		ended, err := unix.Wait4(-1, nil, 0, nil)
		if ended == started.Pid {
			return errors.Join(out.Sync(), out.Close())
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for %s: %w", test, err)
		}
	}
}
