package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// run is one command and what was seen of it.
type run struct {
	size           size
	name           string
	started, ended time.Time
	bytes          int64   // from the apiserver, not compressed
	memory         float64 // most that was resident, bytes
	requests       int
	firstEviction  time.Time
}

func (r *run) took() time.Duration { return r.ended.Sub(r.started) }

// command runs a program by a proxy that counts what the apiserver sends, which clients are not to have compressed. A drain under
// budgets waits for others, and ends with exit code 0; what only looks may exit with 2.
func (b *bencher) command(ctx context.Context, s size, name, path string, args []string) (*run, error) {
	proxy, kubeconfig, err := b.proxy(ctx)
	if err != nil {
		return nil, err
	}
	defer proxy.listener.Close()
	cmd := exec.CommandContext(ctx, path, append([]string{"--kubeconfig", kubeconfig}, args...)...)
	r := &run{size: s, name: name, started: time.Now()}
	output, err := cmd.CombinedOutput()
	r.ended = time.Now()
	if exit := new(exec.ExitError); err != nil && (!errors.As(err, &exit) || exit.ExitCode() == 1) {
		return nil, fmt.Errorf("running %s: %w\n%s", name, err, output)
	}
	r.bytes = proxy.sent.Load()
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.memory = float64(used.Maxrss) * 1024
	}
	return r, nil
}

// proxy counts what comes from the apiserver.
type proxy struct {
	listener net.Listener
	sent     atomic.Int64
}

// proxy starts one, and writes a kubeconfig that leads to it.
func (b *bencher) proxy(ctx context.Context) (*proxy, string, error) {
	config, err := clientcmd.LoadFromFile(b.lab.Kubeconfig())
	if err != nil {
		return nil, "", err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("opening a proxy: %w", err)
	}
	p := &proxy{listener: listener}
	for _, c := range config.Clusters {
		server, err := url.Parse(c.Server)
		if err != nil {
			return nil, "", err
		}
		go p.serve(ctx, server.Host)
		server.Host = listener.Addr().String()
		c.Server, c.DisableCompression = server.String(), true
	}
	path := filepath.Join(b.lab.Dir, "proxy.kubeconfig")
	return p, path, clientcmd.WriteToFile(*config, path)
}

func (p *proxy) serve(ctx context.Context, apiserver string) {
	for {
		from, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		go p.carry(ctx, from, apiserver)
	}
}

func (p *proxy) carry(ctx context.Context, from net.Conn, apiserver string) {
	defer from.Close()
	to, err := new(net.Dialer).DialContext(ctx, "tcp", apiserver)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, io.TeeReader(to, counter{&p.sent}))
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(part []byte) (int, error) {
	c.n.Add(int64(len(part)))
	return len(part), nil
}

// readAudit adds to each run what its program asked, by the apiserver's log.
func readAudit(path string, runs []*run) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("counting requests: %w", err)
	}
	defer file.Close()
	decoder := json.NewDecoder(bufio.NewReader(file))
	for {
		var e struct {
			UserAgent                string
			RequestReceivedTimestamp time.Time
			ObjectRef                struct{ Subresource string }
		}
		switch err := decoder.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("counting requests: %w", err)
		}
		for _, r := range runs {
			program, _, _ := strings.Cut(r.name, " ")
			at := e.RequestReceivedTimestamp
			if !strings.HasPrefix(e.UserAgent, program+"/") || at.Before(r.started) || at.After(r.ended) {
				continue
			}
			r.requests++
			if e.ObjectRef.Subresource == "eviction" && (r.firstEviction.IsZero() || at.Before(r.firstEviction)) {
				r.firstEviction = at
			}
		}
	}
}
