// Package systems asks whether the drivers of systems see in real systems what is there.
package systems

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/wait"

	"usher.sh/usher/lab/binaries"
	"usher.sh/usher/lab/port"
	"usher.sh/usher/lab/process"
)

// etcd is a real cluster on loopback.
type etcd struct {
	dir     string
	program string
	tls     *tls.Config // nil: without TLS
	members []*member
}

// member is one process of it.
type member struct {
	name   string
	client string // URL
	peer   string // URL that it listens on
	link   *link  // what its peers reach it through
	args   []string
	run    *process.Process
}

// options of a cluster.
type options struct {
	members int
	tls     *certificates
}

// start starts a cluster and returns when a quorum serves.
func start(t *testing.T, o options) *etcd {
	t.Helper()
	cache, err := binaries.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	program, err := cache.Path("etcd")
	if errors.Is(err, binaries.ErrNotBuilt) {
		t.Skipf("SKIPPED, nothing was tested: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &etcd{dir: t.TempDir(), program: program}
	if o.tls != nil {
		c.tls = o.tls.client
	}
	for i := range o.members {
		c.add(t, fmt.Sprintf("etcd-%d", i), o.tls)
	}
	for _, m := range c.members {
		m.args = append(m.args, "--initial-cluster="+c.initial(), "--initial-cluster-state=new")
		c.run(t, m)
	}
	c.serving(t)
	return c
}

// add makes a member that is not running yet.
func (c *etcd) add(t *testing.T, name string, certs *certificates) *member {
	t.Helper()
	scheme := "http"
	if certs != nil {
		scheme = "https"
	}
	m := &member{name: name, peer: "http://" + address(t), client: scheme + "://" + address(t)}
	m.link = newLink(t, strings.TrimPrefix(m.peer, "http://"))
	m.args = []string{
		"--name=" + name, "--data-dir=" + filepath.Join(c.dir, name),
		"--listen-client-urls=" + m.client, "--advertise-client-urls=" + m.client,
		"--listen-peer-urls=" + m.peer, "--initial-advertise-peer-urls=" + m.link.url,
		// No other member is elected because a busy machine has stopped a leader for a while.
		"--heartbeat-interval=50", "--election-timeout=5000", "--unsafe-no-fsync", "--log-level=error",
		"--strict-reconfig-check=false", // else no member is let in during the first 5 s
		"--initial-cluster-token=" + filepath.Base(c.dir),
	}
	if certs != nil {
		m.args = append(m.args, certs.args...)
	}
	c.members = append(c.members, m)
	return m
}

func (c *etcd) initial() string {
	var parts []string
	for _, m := range c.members {
		parts = append(parts, m.name+"="+m.link.url)
	}
	return strings.Join(parts, ",")
}

func (c *etcd) run(t *testing.T, m *member) {
	t.Helper()
	p, err := process.Start(process.Spec{Name: m.name, Path: c.program, Args: m.args, Dir: c.dir, EndWithParent: true})
	if err != nil {
		t.Fatal(err)
	}
	m.run = p
	t.Cleanup(func() {
		c.stop(t, m)
		if t.Failed() {
			log, _ := os.ReadFile(p.Log)
			t.Logf("%s said:\n%s", m.name, log)
		}
	})
}

// stop kills a member's process and returns when it is gone.
func (c *etcd) stop(t *testing.T, m *member) {
	t.Helper()
	if m.run == nil {
		return
	}
	if err := m.run.Stop(c.dir, 0); err != nil {
		t.Errorf("stopping %s: %v", m.name, err)
	}
	m.run = nil
}

// freeze keeps a member from doing anything, as a node that hangs does, until the returned function is called.
func (m *member) freeze(t *testing.T) (thaw func()) {
	t.Helper()
	pid := m.run.PID
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	thaw = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	t.Cleanup(thaw)
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return stopped(pid) })
	if err != nil {
		t.Fatalf("waiting for the member to stop: %v", err)
	}
	return thaw
}

// stopped reports whether all threads of a process have stopped: on a busy machine one that has not seen the signal goes on
// answering.
func stopped(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false, err
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil // it has ended since
		}
		if err != nil {
			return false, err
		}
		if _, state, _ := bytes.Cut(stat, []byte(") ")); !bytes.HasPrefix(state, []byte("T")) {
			return false, nil
		}
	}
	return true, nil
}

// dial makes a client of the members, all of them if none are given.
func (c *etcd) dial(t *testing.T, members ...*member) *clientv3.Client {
	t.Helper()
	return c.dialAs(t, "", "", members...)
}

func (c *etcd) dialAs(t *testing.T, user, password string, members ...*member) *clientv3.Client {
	t.Helper()
	if len(members) == 0 {
		members = c.members
	}
	var urls []string
	for _, m := range members {
		urls = append(urls, m.client)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: urls, TLS: c.tls, Username: user, Password: password, Logger: zap.NewNop(), DialTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// serving returns when every running member answers through a quorum.
func (c *etcd) serving(t *testing.T) {
	t.Helper()
	for _, m := range c.members {
		if m.run == nil {
			continue
		}
		if _, err := c.dial(t, m).MemberList(patience(t)); err != nil {
			t.Fatalf("waiting for %s: %v", m.name, err)
		}
	}
}

// patience ends waits that would never end. No test depends on its length.
func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// address is one on loopback that is kept for the listener that the test puts there.
func address(t *testing.T) string {
	t.Helper()
	p, err := port.Keep()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Release() })
	return p.Address()
}
