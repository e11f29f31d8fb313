package serviceproxy

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long an endpoint has to take a connection; a pod that has gone does not refuse it.
const patience = 5 * time.Second

// forward is one port of a Service.
type forward struct {
	listener  net.Listener
	endpoints atomic.Pointer[[]string]
	running   sync.WaitGroup
}

// listen opens the port. Connections through it end when ctx ends; stop alone leaves them to their two ends.
func listen(ctx context.Context, at netip.AddrPort, endpoints []string) (*forward, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", at.String())
	if err != nil {
		return nil, fmt.Errorf("serving %s: %w", at, err)
	}
	f := &forward{listener: listener}
	f.lead(endpoints)
	f.running.Go(func() { f.serve(ctx) })
	return f, nil
}

func (f *forward) lead(endpoints []string) { f.endpoints.Store(&endpoints) }

// stop makes the port refuse connections.
func (f *forward) stop() {
	_ = f.listener.Close()
	f.running.Wait()
}

func (f *forward) serve(ctx context.Context) {
	for {
		from, err := f.listener.Accept()
		if err != nil {
			return // closed
		}
		go f.connect(ctx, from)
	}
}

func (f *forward) connect(ctx context.Context, from net.Conn) {
	defer from.Close()
	endpoints := *f.endpoints.Load()
	dialer := net.Dialer{Timeout: patience}
	to, err := dialer.DialContext(ctx, "tcp4", endpoints[rand.IntN(len(endpoints))])
	if err != nil {
		return
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() {
		_ = from.Close()
		_ = to.Close()
	})()
	var both sync.WaitGroup
	both.Go(func() { carry(from, to) })
	both.Go(func() { carry(to, from) })
	both.Wait()
}

// carry passes the end of one direction on, as a connection without a proxy would; a failure ends both.
func carry(from, to net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(*net.TCPConn)
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = from.Close()
		_ = to.Close()
	}
}
