package fdbreal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Programs returns the folder with fdbserver and fdbcli: FDB_BIN, or where PATH has them. "": there is none.
func Programs() string {
	if folder := os.Getenv("FDB_BIN"); folder != "" {
		return folder
	}
	server, err := exec.LookPath("fdbserver")
	if err != nil {
		return ""
	}
	return filepath.Dir(server)
}

// Cluster is a cluster of processes p1, p2, …, each in a zone of its own: z1, z2, ….
type Cluster struct {
	t       testing.TB
	bin     string
	dir     string
	net     string // the first three parts of the addresses
	port    int
	classes []string // of the processes, in their order; unset from there on
	running map[string]*exec.Cmd
}

// startWithin is how long a database may take until it is available; the machine may be busy.
const startWithin = 2 * time.Minute

// Start starts n processes, the first ones of classes, and configures a database. It skips the test, loudly, where there are no programs. Everything ends
// with the test.
func Start(t testing.TB, n int, configuration string, classes ...string) *Cluster {
	t.Helper()
	c := StartUnformed(t, n, classes...)
	ctx, cancel := context.WithTimeout(t.Context(), startWithin)
	defer cancel()
	for {
		out, err := c.FDBCLI(ctx, "configure new "+configuration)
		if strings.Contains(out, "Database created") || strings.Contains(out, "already") {
			return c
		}
		if ctx.Err() != nil {
			t.Fatalf("the database was not configured: %s %v", out, err)
		}
		Pause(ctx)
	}
}

// StartUnformed starts the same processes, and makes no database.
func StartUnformed(t testing.TB, n int, classes ...string) *Cluster {
	t.Helper()
	bin := Programs()
	if bin == "" {
		t.Skip("SKIPPED, NOT TESTED: there is no fdbserver (set FDB_BIN to a folder with fdbserver and fdbcli)")
	}
	c := &Cluster{t: t, bin: bin, dir: t.TempDir(), classes: classes, running: map[string]*exec.Cmd{}}
	pid := os.Getpid()
	c.net, c.port = fmt.Sprintf("127.%d.%d", 1+pid>>8%250, pid%250), freePort(t)
	var coordinators []string
	for i := range min(3, n) {
		coordinators = append(coordinators, c.Address(i+1))
	}
	if err := os.WriteFile(c.ClusterFilePath(), []byte("lab:lab0@"+strings.Join(coordinators, ",")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.end)
	for i := range n {
		c.Run(fmt.Sprintf("p%d", i+1), fmt.Sprintf("z%d", i+1), i+1)
	}
	return c
}

// freePort is a port of loopback that is free now.
func freePort(t testing.TB) int {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// Pause is how long is waited before a cluster is looked at again.
func Pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(300 * time.Millisecond):
	}
}

// Address is that of the i-th process, IP that of its pod if it had one.
func (c *Cluster) Address(i int) string { return fmt.Sprintf("%s:%d", c.IP(i), c.port) }

// IP is the i-th process' own.
func (c *Cluster) IP(i int) string { return fmt.Sprintf("%s.%d", c.net, 10+i) }

// ClusterFilePath is the cluster file of the processes.
func (c *Cluster) ClusterFilePath() string { return filepath.Join(c.dir, "fdb.cluster") }

// CLIPath is fdbcli.
func (c *Cluster) CLIPath() string { return filepath.Join(c.bin, "fdbcli") }

// FDBCLI runs a command by hand.
func (c *Cluster) FDBCLI(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, c.CLIPath(), "-C", c.ClusterFilePath(), "--timeout", "30", "--no-status", "--exec", command).CombinedOutput()
	return string(out), err
}

// Run starts the i-th process under an id and in a zone; it goes on with the data that it has.
func (c *Cluster) Run(id, zone string, i int) {
	c.t.Helper()
	folder := filepath.Join(c.dir, id)
	for _, f := range []string{"data", "log"} {
		if err := os.MkdirAll(filepath.Join(folder, f), 0o700); err != nil {
			c.t.Fatal(err)
		}
	}
	class := "unset"
	if i <= len(c.classes) {
		class = c.classes[i-1]
	}
	// It ends with the cluster, which outlives the context of the test.
	cmd := exec.CommandContext(context.WithoutCancel(c.t.Context()), filepath.Join(c.bin, "fdbserver"), "--cluster-file", c.ClusterFilePath(),
		"--public-address", c.Address(i), "--listen-address", "public", "--datadir", filepath.Join(folder, "data"), "--logdir", filepath.Join(folder, "log"),
		"--logsize", "10MiB", "--maxlogssize", "20MiB", "--locality-zoneid", zone, "--locality-machineid", zone, "--locality-instance_id", id,
		"--class", class, "--memory", "1GiB", "--cache-memory", "32MiB")
	dieWithTest(cmd)
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.running[id] = cmd
}

// Kill ends a process.
func (c *Cluster) Kill(id string) {
	c.t.Helper()
	cmd := c.running[id]
	delete(c.running, id)
	if cmd == nil {
		return
	}
	if err := errors.Join(cmd.Process.Kill(), ended(cmd)); err != nil {
		c.t.Error(err)
	}
}

// ended waits; that it was killed is no error.
func ended(cmd *exec.Cmd) error {
	err := cmd.Wait()
	if _, killed := errors.AsType[*exec.ExitError](err); killed {
		return nil
	}
	return err
}

func (c *Cluster) end() {
	for id := range c.running {
		c.Kill(id)
	}
}

// Write commits so many values of a thousand bytes below a prefix.
func (c *Cluster) Write(prefix string, values int) {
	c.t.Helper()
	for from := 0; from < values; from += 50 {
		var commands strings.Builder
		commands.WriteString("writemode on; begin")
		for i := from; i < min(values, from+50); i++ {
			fmt.Fprintf(&commands, "; set %s%06d %s", prefix, i, strings.Repeat("x", 1000))
		}
		commands.WriteString("; commit")
		if out, err := c.FDBCLI(c.t.Context(), commands.String()); err != nil || !strings.Contains(out, "Committed") {
			c.t.Fatalf("writing: %v %s", err, out)
		}
	}
}
