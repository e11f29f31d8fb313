// Package openstack answers: how does a test get a real OpenStack? Nova, Neutron, Keystone, Placement and Ironic of Debian's packages run on loopback;
// hypervisors, the network's data plane and Glance are stubs, as files/up.sh says. One control plane is started per test binary, on first use,
// and ended with it. A machine has room for one, since its ports are fixed: the next test binary waits.
package openstack

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"usher.sh/usher/lab/binaries"
)

const (
	// CloudName is what clouds.yaml calls the cloud.
	CloudName = "test"
	// ImageID is the image's, of which there is one.
	ImageID = "11111111-2222-3333-4444-555555555555"
	// NetworkHost is the host that has agents and no nova-compute.
	NetworkHost = "net-1"
)

// Computes returns the hosts that run a nova-compute.
func Computes() []string { return []string{"compute-1", "compute-2", "compute-3"} }

// Cloud is a running control plane.
type Cloud struct {
	dir        string // scripts and, under run, all state
	clouds     string // clouds.yaml
	supervisor *supervisor
	silenced   sync.Mutex // the file of silenced agents
}

//go:embed files
var files embed.FS

// ports are those that up.sh has written into it.
var ports = []string{"15000", "19292", "18778", "18774", "19696", "15673", "25673", "14369", "16385"}

// neutronPaste is where python3-neutron has the configuration that up.sh copies.
const neutronPaste = "/usr/lib/python3/dist-packages/neutron/tests/etc/api-paste.ini"

var shared struct {
	sync.Mutex
	cloud *Cloud
	err   error
}

// Main runs the tests of a package, ends the control plane after them, and exits. A package that has a Main of another kind needs none of this:
// the control plane ends after the test binary as well, only that nothing waits for it then but the next one's start.
func Main(m *testing.M) {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.cloud != nil {
		if err := shared.cloud.supervisor.end(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Start returns the control plane shared by the tests of this binary, started by the first call. The others start what has died of it. Where
// the machine cannot run one the test is skipped, with what is missing. Ironic is not part of it.
func Start(tb testing.TB) *Cloud {
	tb.Helper()
	return start(tb, "PKGS", up)
}

// StartIronic returns the control plane like Start, with Ironic, of whose machines there are none yet. Where Start was not called it has Keystone
// beside it, and nothing else.
func StartIronic(tb testing.TB) *Cloud {
	tb.Helper()
	return start(tb, "PKGS_IRONIC", "PART=ironic", up)
}

// start runs a command of up.sh, which needs the packages of a list there.
func start(tb testing.TB, list string, command ...string) *Cloud {
	tb.Helper()
	m, err := look(packages(list))
	if err != nil {
		tb.Fatal(err)
	}
	if reason := m.refuses(os.Getenv(ChoiceEnv)); reason != "" {
		tb.Skip("SKIPPED, NOT TESTED: " + reason)
	}
	shared.Lock()
	defer shared.Unlock()
	switch {
	case shared.err != nil:
	case shared.cloud == nil:
		shared.cloud, shared.err = launch(command)
	default:
		err = shared.cloud.supervisor.run(command...)
	}
	if err = errors.Join(shared.err, err); err != nil {
		tb.Fatal(err)
	}
	return shared.cloud
}

// Clouds returns the administrator's clouds.yaml.
func (c *Cloud) Clouds() string { return c.clouds }

// Logs is the folder with the logs of all processes.
func (c *Cloud) Logs() string { return filepath.Join(c.dir, "run", "log") }

const (
	up   = "./up.sh"
	down = "./down.sh"
)

// launch starts a control plane without any state by a command of up.sh, and ends first what a supervisor that was killed has left.
func launch(command []string) (*Cloud, error) {
	cache, err := binaries.DefaultCache()
	if err != nil {
		return nil, err
	}
	c := &Cloud{dir: filepath.Join(cache.Dir, "openstack")}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, fmt.Errorf("starting OpenStack: %w", err)
	}
	lock, err := lockFile(filepath.Join(c.dir, "lock"))
	if err != nil {
		return nil, err
	}
	defer lock.Close() // the supervisor has it, too
	if err := unpack(c.dir); err != nil {
		return nil, fmt.Errorf("writing the scripts of OpenStack: %w", err)
	}
	if c.supervisor, err = supervise(c.dir, lock, environment(c.dir)); err != nil {
		return nil, err
	}
	if err := c.fresh(command); err != nil {
		return nil, errors.Join(err, c.supervisor.end())
	}
	return c, nil
}

// fresh runs a command of up.sh, once nothing is left of earlier.
func (c *Cloud) fresh(command []string) error {
	if err := c.supervisor.run(down, "-9"); err != nil {
		return err
	}
	run := filepath.Join(c.dir, "run")
	if err := os.RemoveAll(run); err != nil {
		return fmt.Errorf("removing the state of an earlier OpenStack: %w", err)
	}
	if err := taken(); err != nil {
		return err
	}
	if err := seed(filepath.Join(run, "etc")); err != nil {
		return fmt.Errorf("writing what OpenStack is configured with: %w", err)
	}
	if err := c.supervisor.run(command...); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "clouds.yaml")) // once: up.sh writes it anew whenever it runs
	c.clouds = string(text)
	return err
}

// environment is what the scripts read of it.
func environment(dir string) []string {
	return append(os.Environ(), "OS_RUN="+filepath.Join(dir, "run"), "COMPUTES="+strings.Join(Computes(), " "), "AGENTS="+strings.Join(hostAgents, " "))
}

// unpack writes the scripts.
func unpack(dir string) error {
	return fs.WalkDir(files, "files", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, filepath.Base(path)), text, 0o755)
	})
}

// seed writes the two files that up.sh would get from elsewhere, nova's by a download. Where Neutron is not installed yet up.sh gets both.
func seed(etc string) error {
	neutron, err := os.ReadFile(neutronPaste)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	nova, err := files.ReadFile("files/nova-paste.ini")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(etc, 0o755),
		os.WriteFile(filepath.Join(etc, "neutron-paste.ini"), neutron, 0o644),
		os.WriteFile(filepath.Join(etc, "nova-paste.ini"), nova, 0o644))
}

// taken returns an error where something listens on a port of the control plane, which would be taken for a part of it.
func taken() error {
	i := slices.IndexFunc(ports, func(port string) bool {
		connection, err := net.Dial("tcp", "127.0.0.1:"+port) //nolint:noctx // loopback answers at once
		return err == nil && connection.Close() == nil
	})
	if i < 0 {
		return nil
	}
	return fmt.Errorf("OpenStack cannot start: another program listens on port %s of 127.0.0.1; end it (an OpenStack that up.sh has started: by its down.sh)", ports[i])
}
