package openstack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Agent is a kind of Neutron's agents.
type Agent string

// The agents of a host.
const (
	AllAgents   Agent = "" // of a host
	OpenVSwitch Agent = "ovs"
	L3          Agent = "l3"
	DHCP        Agent = "dhcp"
	BGP         Agent = "bgp"
)

// hostAgents are the hosts', as up.sh reads them.
var hostAgents = []string{"compute-1=ovs,l3,dhcp,bgp", "compute-2=ovs,l3,dhcp,bgp", "compute-3=ovs", NetworkHost + "=ovs,l3,dhcp,bgp"}

// Silence stops the heartbeats and answers of an agent of a host, or of all, within seconds, as if they had died. Neutron calls them not alive
// 10 s after the last heartbeat. They are back after the test, or by Revive.
func (c *Cloud) Silence(tb testing.TB, host string, agent Agent) {
	tb.Helper()
	line, err := silence(host, agent)
	if err == nil {
		tb.Cleanup(func() { c.Revive(tb, host, agent) })
		err = c.changeSilenced(func(lines []string) []string { return append(lines, line) })
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// Revive takes back what Silence was called with.
func (c *Cloud) Revive(tb testing.TB, host string, agent Agent) {
	tb.Helper()
	line, err := silence(host, agent)
	if err == nil {
		err = c.changeSilenced(func(lines []string) []string {
			return slices.DeleteFunc(lines, func(l string) bool { return l == line })
		})
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// silence is the line that silences an agent.
func silence(host string, agent Agent) (string, error) {
	for _, a := range hostAgents {
		name, kinds, _ := strings.Cut(a, "=")
		switch {
		case name != host:
		case agent == AllAgents:
			return host, nil
		case slices.Contains(strings.Split(kinds, ","), string(agent)):
			return host + "/" + string(agent), nil
		}
	}
	return "", fmt.Errorf("no agent %q on host %q; there are %v", agent, host, hostAgents)
}

// changeSilenced rewrites the file at once: it is read every two seconds.
func (c *Cloud) changeSilenced(change func(lines []string) []string) error {
	c.silenced.Lock()
	defer c.silenced.Unlock()
	path := filepath.Join(c.dir, "run", "agents-down")
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("silencing agents: %w", err)
	}
	lines := change(strings.Fields(string(text)))
	if err := os.WriteFile(path+".new", []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("silencing agents: %w", err)
	}
	return os.Rename(path+".new", path)
}

// KillCompute ends the nova-compute of a host at once, as a host that loses its power does, and returns when it has ended. Nova calls it down
// 10 s after its last report. It is started again after the test, or by StartCompute.
func (c *Cloud) KillCompute(tb testing.TB, host string) {
	tb.Helper()
	isCompute(tb, host)
	if _, err := os.Stat(filepath.Join(c.dir, "run", "pids", host)); err != nil { // with the process id and start time
		tb.Fatalf("no nova-compute of %s runs: %v", host, err)
	}
	tb.Cleanup(func() { c.StartCompute(tb, host) })
	if err := c.supervisor.run(down, "-9", host); err != nil {
		tb.Fatal(err)
	}
}

// StartCompute starts the nova-compute of a host where it does not run. Nova calls it up after its first report, some seconds later.
func (c *Cloud) StartCompute(tb testing.TB, host string) {
	tb.Helper()
	isCompute(tb, host)
	if err := c.supervisor.run("COMPUTES="+host, up); err != nil {
		tb.Fatal(err)
	}
}

// isCompute fails the test where the host has no nova-compute.
func isCompute(tb testing.TB, host string) {
	tb.Helper()
	if !slices.Contains(Computes(), host) {
		tb.Fatalf("host %q has no nova-compute; these have: %v", host, Computes())
	}
}
