package openstack

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSilencedAgentsAreLinesOfAFile(t *testing.T) {
	c := &Cloud{dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(c.dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name  string
		do    func(testing.TB, string, Agent)
		host  string
		agent Agent
		want  string
	}{
		{"one", c.Silence, "compute-1", L3, "compute-1/l3\n"},
		{"a whole host", c.Silence, "net-1", AllAgents, "compute-1/l3\nnet-1\n"},
		{"one of that host as well", c.Silence, "net-1", BGP, "compute-1/l3\nnet-1\nnet-1/bgp\n"},
		{"the host is back", c.Revive, "net-1", AllAgents, "compute-1/l3\nnet-1/bgp\n"},
		{"again", c.Revive, "net-1", AllAgents, "compute-1/l3\nnet-1/bgp\n"},
		{"all are back", c.Revive, "net-1", BGP, "compute-1/l3\n"},
	} {
		step.do(t, step.host, step.agent)
		if got, err := os.ReadFile(filepath.Join(c.dir, "run", "agents-down")); string(got) != step.want || err != nil {
			t.Fatalf("%s: got %q, %v, want %q", step.name, got, err, step.want)
		}
	}
}

func TestAgentsThatThereAreNot(t *testing.T) {
	for _, tc := range []struct {
		name, host string
		agent      Agent
	}{
		{"no such host", "compute-9", L3},
		{"no such agent", "compute-1", "metadata"},
		{"an agent that this host has not", "compute-3", DHCP},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if line, err := silence(tc.host, tc.agent); err == nil {
				t.Errorf("got line %q, want an error", line)
			}
		})
	}
}
