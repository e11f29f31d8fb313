// Package door answers: how are several servers reached at one address, as by a Service?
package door

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
)

// Door is one address on loopback for several servers: a connection goes to the next one that takes it.
type Door struct {
	listener net.Listener

	mu      sync.Mutex
	behind  []string
	next    int
	serving sync.WaitGroup
}

// Open opens a door with no server behind it yet.
func Open(ctx context.Context) (*Door, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the servers' address: %w", err)
	}
	d := &Door{listener: listener}
	d.serving.Go(d.serve)
	return d, nil
}

// URL is the address, for HTTPS.
func (d *Door) URL() string { return "https://" + d.listener.Addr().String() }

// Close takes no more connections. Those that are open stay.
func (d *Door) Close() {
	_ = d.listener.Close()
	d.serving.Wait()
}

// Add puts a server behind the door, by its address.
func (d *Door) Add(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.behind, address) {
		d.behind = append(d.behind, address)
	}
}

func (d *Door) serve() {
	for {
		from, err := d.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		go d.lead(from)
	}
}

// lead joins a connection to the first server that takes it; to none: the connection is refused.
func (d *Door) lead(from net.Conn) {
	defer from.Close()
	for _, address := range d.turn() {
		to, err := new(net.Dialer).Dial("tcp", address)
		if err != nil {
			continue
		}
		connect(from, to)
		return
	}
}

// turn returns the servers, each time beginning with another one.
func (d *Door) turn() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.behind) == 0 {
		return nil
	}
	d.next = (d.next + 1) % len(d.behind)
	return slices.Concat(d.behind[d.next:], d.behind[:d.next])
}

func connect(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { carry(a, b) })
	both.Go(func() { carry(b, a) })
	both.Wait()
}

// carry ends both directions when one ends: HTTP needs no half of a connection.
func carry(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_ = from.Close()
	_ = to.Close()
}
