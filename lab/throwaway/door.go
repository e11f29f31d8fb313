package throwaway

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// door is one address for all replicas, as a Service is: each connection goes to the next one.
type door struct {
	listener net.Listener
	behind   []string
	next     atomic.Uint64
}

func openDoor(ctx context.Context, behind []string) (*door, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the replicas' address: %w", err)
	}
	d := &door{listener: listener, behind: behind}
	go d.serve(ctx)
	return d, nil
}

func (d *door) url() string { return "https://" + d.listener.Addr().String() }

func (d *door) close() { _ = d.listener.Close() }

func (d *door) serve(ctx context.Context) {
	for {
		from, err := d.listener.Accept()
		if err != nil {
			return // closed
		}
		go d.lead(ctx, from)
	}
}

func (d *door) lead(ctx context.Context, from net.Conn) {
	defer from.Close()
	to, err := new(net.Dialer).DialContext(ctx, "tcp", d.behind[d.next.Add(1)%uint64(len(d.behind))])
	if err != nil {
		return
	}
	defer to.Close()
	var both sync.WaitGroup
	both.Go(func() { carry(from, to) })
	both.Go(func() { carry(to, from) })
	both.Wait()
}

// carry ends both directions when one ends: HTTP needs no half of a connection.
func carry(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_ = from.Close()
	_ = to.Close()
}
